"""The default read-only profile: every command, with every option, that is taken for a read.

An option is here only if it does the same, or is refused, in the implementations of GNU, BSD, macOS and busybox. Not here
on purpose: everything that runs what it is given (awk, env, xargs, time, interpreters), that has a file to write among
its operands (xxd, tee), or that shows a page at a time and can be told to do more (less, man).
"""

from __future__ import annotations

from typing import Final

from opask.shell.git import check_git
from opask.shell.programs import (
    check_command,
    check_date,
    check_exit,
    check_find,
    check_printf,
    check_sed,
    check_sleep,
    check_version,
)
from opask.shell.values import Command, Profile

__all__ = ["DEFAULT"]

_GREP: Final = Command(
    "EFGPivwxcLlmoqsbHhnTZzaUIrRyeABCdDf".translate({ord(letter): f"{letter}:" for letter in "meABCdDf"}),
    "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case no-ignore-case invert-match word-regexp "
    "line-regexp count color=? colour=? files-without-match files-with-matches max-count= only-matching quiet silent "
    "no-messages byte-offset with-filename no-filename label= line-number initial-tab null text binary-files= exclude= "
    "exclude-from= exclude-dir= include= recursive dereference-recursive regexp= file= after-context= before-context= "
    "context= line-buffered null-data devices= directories= binary",
    harmless=True,
    digits=True,
)
_SUM: Final = Command(
    "btczw", "binary text check zero quiet status strict warn tag ignore-missing", harmless=True
)
_NOTHING: Final = Command(harmless=True)
_VERSION: Final = Command(check=check_version)

_COMMANDS: Final = {
    ":": _NOTHING,
    "arch": Command(operands=0),
    "b2sum": _SUM,
    "basename": Command("as:z", "multiple suffix= zero", harmless=True),
    "cat": Command("AbeEnstTuv", "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting", harmless=True),
    "cd": Command("LP", operands=1),
    "cksum": Command(harmless=True),
    "cmp": Command("bln:s", "print-bytes verbose bytes= quiet silent", harmless=True),
    "column": Command("tnx s:c:o:".replace(" ", ""), "table separator= output-separator= columns=", harmless=True),
    "comm": Command("123iz", "check-order nocheck-order output-delimiter= total zero-terminated", harmless=True),
    "command": Command(check=check_command),
    "cut": Command("b:c:d:f:nsz", "bytes= characters= delimiter= fields= complement only-delimited output-delimiter= "
        "zero-terminated", harmless=True),
    "date": Command(check=check_date),
    "df": Command("aBhHiklPTt:x:m", "all block-size= human-readable si inodes local portability print-type type= "
        "exclude-type= total output=? no-sync"),
    "diff": Command("qsycuBbwiENarTtpdH"
        "U:C:W:x:I:", "brief report-identical-files side-by-side context=? unified=? ignore-blank-lines "
        "ignore-space-change ignore-all-space ignore-case new-file text recursive width= exclude= ignore-matching-lines= "
        "color=? suppress-common-lines strip-trailing-cr left-column minimal normal show-c-function label= "
        "ignore-tab-expansion ignore-trailing-space no-dereference expand-tabs initial-tab speed-large-files"),
    "dirname": Command("z", "zero", harmless=True),
    "du": Command("aAbBcdhHkLlmPsSxtX0".translate({ord(letter): f"{letter}:" for letter in "BdtX"}), "all apparent-size "
        "block-size= bytes total dereference-args max-depth= human-readable inodes count-links dereference "
        "no-dereference separate-dirs si summarize threshold= time=? exclude= exclude-from= one-file-system null"),
    "echo": Command(check=lambda words: None),
    "egrep": _GREP,
    "exit": Command(check=check_exit),
    "expand": Command("it:", "initial tabs=", harmless=True),
    "false": _NOTHING,
    "fd": Command("HIuUsigLpae:t:E:d:S:1qF0j:c:", "hidden no-ignore unrestricted case-sensitive ignore-case glob follow "
        "full-path absolute-path extension= type= exclude= max-depth= min-depth= exact-depth= size= "
        "max-results= quiet fixed-strings print0 color= changed-within= changed-before= no-ignore-vcs"),
    "fgrep": _GREP,
    "file": Command("bikLhNnrs0m:F:", "brief mime mime-type mime-encoding keep-going dereference no-dereference no-pad "
        "raw special-files print0 separator= extension"),
    "find": Command(check=check_find),
    "fmt": Command("cstuw:p:g:", "crown-margin split-only tagged-paragraph uniform-spacing width= prefix= goal=", harmless=True, digits=True),
    "fold": Command("bsw:", "bytes spaces width=", harmless=True),
    "free": Command("bkmghtlw", "bytes kibi mebi gibi human total lohi wide si", operands=0),
    "getconf": Command("a"),
    "git": Command(check=check_git),
    "grep": _GREP,
    "groups": Command(operands=1),
    "head": Command("c:n:qvz", "bytes= lines= quiet silent verbose zero-terminated", harmless=True, digits=True),
    "hexdump": Command("bcCdoxve:f:n:s:", harmless=True),
    "hostname": Command("fsidI", "fqdn short ip-address domain all-ip-addresses", operands=0),
    "id": Command("aGgnruz", "group groups name real user zero"),
    "join": Command("ia:e:1:2:j:o:t:v:z", "ignore-case check-order nocheck-order header zero-terminated", harmless=True),
    "jq": Command("nrRsScCMaejhf:L:", "null-input raw-input slurp sort-keys compact-output raw-output join-output "
        "ascii-output color-output monochrome-output exit-status tab arg= argjson= args jsonargs raw-output0 seq stream"),
    "locale": Command("ackm", "all-locales charmaps category-name keyword-name"),
    "ls": Command("aAbBcCdDfFgGhHiIklLmnNopqQrRsStTuUvwxXZ1@%".translate({ord(letter): f"{letter}:" for letter in "ITw"}), "all almost-all author "
        "escape block-size= ignore-backups color=? directory classify=? file-type format= full-time group-directories-first "
        "no-group human-readable si dereference-command-line hide= hyperlink=? indicator-style= inode ignore= kibibytes "
        "dereference numeric-uid-gid literal hide-control-chars show-control-chars quote-name quoting-style= reverse "
        "recursive size sort= time= time-style= tabsize= width= context zero", harmless=True),
    "md5": Command("qrs:", harmless=True),
    "md5sum": _SUM,
    "nl": Command("b:d:f:h:i:l:n:ps:v:w:", "body-numbering= section-delimiter= footer-numbering= header-numbering= "
        "line-increment= number-format= number-separator= number-width= starting-line-number= no-renumber", harmless=True),
    "nproc": Command("", "all ignore=", operands=0),
    "od": Command("A:j:N:t:vw::abcdfiloxsS:", "address-radix= skip-bytes= read-bytes= format= output-duplicates width=? strings=?", harmless=True),
    "paste": Command("d:sz", "delimiters= serial zero-terminated", harmless=True),
    "pgrep": Command("afilnou:vxcP:", "full list-name list-full newest oldest exact count inverse parent= euid="),
    "printenv": Command("0", "null"),
    "printf": Command(check=check_printf),
    "ps": Command("AaedfFHjlMLTwxyo:p:u:U:C:t:g:G:N", "forest sort= format= pid= user= no-headers headers cols= columns= ppid="),
    "pwd": Command("LP", "logical physical", operands=0),
    "readlink": Command("femnqsvz", "canonicalize canonicalize-existing canonicalize-missing no-newline quiet silent verbose zero", harmless=True),
    "realpath": Command("emLPqsz", "canonicalize-existing canonicalize-missing logical physical quiet strip no-symlinks zero "
        "relative-to= relative-base=", harmless=True),
    "rev": _NOTHING,
    "rg": Command("A:B:C:e:f:g:t:T:m:d:j:r:E:M:ivwxclLnNoqsSuUFPp0HhbaI.z".replace("z", ""), "after-context= before-context= context= regexp= "
        "file= glob= iglob= type= type-not= max-count= max-depth= threads= replace= encoding= max-columns= "
        "ignore-case invert-match word-regexp line-regexp count count-matches files-with-matches files-without-match "
        "line-number no-line-number only-matching quiet case-sensitive smart-case unrestricted multiline "
        "multiline-dotall fixed-strings pcre2 pretty null with-filename no-filename byte-offset text hidden no-hidden "
        "no-ignore no-ignore-vcs no-ignore-parent no-ignore-dot no-ignore-global no-ignore-exclude files type-list json vimgrep "
        "color= colors= heading no-heading sort= sortr= stats trim column no-messages no-config follow crlf max-filesize= "
        "glob-case-insensitive one-file-system passthru include-zero debug trace engine= no-binary binary line-buffered "
        "block-buffered no-mmap mmap"),
    "sed": Command(check=check_sed),
    "seq": Command("f:s:w", "format= separator= equal-width", harmless=True),
    **dict.fromkeys(("sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum"), _SUM),
    "shasum": Command("a:btcqsw", "algorithm= binary text check", harmless=True),
    "sleep": Command(check=check_sleep),
    "sort": Command("bdfghiMnRrVcCk:mst:uz", "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort "
        "human-numeric-sort ignore-nonprinting month-sort numeric-sort random-sort reverse sort= version-sort check=? key= "
        "merge stable field-separator= unique zero-terminated parallel= buffer-size= debug"),
    "stat": Command("Lfc:tnqxrs", "dereference file-system format= printf= terse", harmless=True),
    "strings": Command("an:t:e:f", "all bytes= radix= encoding= print-file-name", harmless=True),
    "sum": _NOTHING,
    "tac": Command("brs:", "before regex separator=", harmless=True),
    "tail": Command("c:n:qvzFfrs:", "bytes= lines= quiet silent verbose zero-terminated follow=? retry pid= sleep-interval=", harmless=True, digits=True),
    "tr": Command("cCdst", "complement delete squeeze-repeats truncate-set1", harmless=True),
    "tree": Command("adfialsDFguhpxCnrtvUJXL:P:I:", "dirsfirst filesfirst noreport prune matchdirs gitignore du si sort= filelimit= "
        "charset= inodes device"),
    "true": _NOTHING,
    "tty": Command("s", operands=0),
    "type": Command("afptP", harmless=True),
    "uname": Command("asnrvmpio", "all kernel-name nodename kernel-release kernel-version machine processor "
        "hardware-platform operating-system", operands=0),
    "unexpand": Command("at:", "all first-only tabs=", harmless=True),
    "uniq": Command("cdDiuf:s:w:z", "count repeated all-repeated=? ignore-case unique skip-fields= skip-chars= check-chars= "
        "zero-terminated group=?", operands=1),
    "uptime": Command("ps", "pretty since", operands=0),
    "wc": Command("clmwL", "bytes lines chars words max-line-length total=", harmless=True),
    "which": Command("as", harmless=True),
    "who": Command("abdHlmpqrstTu", operands=0),
    "whoami": Command(operands=0),
    **dict.fromkeys(
        ("cc", "clang", "cmake", "deno", "g++", "gcc", "java", "make", "node", "pip", "python", "python3", "ruby", "uv"), _VERSION),
}  # fmt: skip

DEFAULT: Final = Profile(
    commands=_COMMANDS,
    variables="LANG LANGUAGE LC_ALL LC_COLLATE LC_CTYPE LC_MESSAGES LC_NUMERIC LC_TIME NO_COLOR COLUMNS GIT_OPTIONAL_LOCKS=0 TZ",
    loop_variables="a b c d dir e ext f file filename folder i item j k l line m n name p pattern part q r src t target u "
    "v w word x y z",
    # opask itself is here since its inbox is what answers: it is to be asked about each time.
    network="opask ansible ansible-playbook aria2c autossh aws axel az azcopy bq curl dig doctl docker firebase flyctl ftp "
    "gcloud gh glab gsutil heroku helm kubectl lftp lynx mail mailx mosh msmtp mutt nc ncat netcat netlify nmap nslookup ping podman psql pulumi rclone rsync s3cmd "
    "scp sendmail sftp skopeo smbclient socat ssh ssh-copy-id sshfs sshpass svn telnet terraform tftp twine vercel w3m "
    "wget wrangler xh",
)
"""The profile that is used where the host gives none."""
