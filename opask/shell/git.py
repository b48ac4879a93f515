"""The sub-commands of git that only read, with their options, as of git 2.50.

git also takes long options that are shortened; those are unknown here. Programs that git's own settings name (a pager,
a diff driver, a file system monitor) run as ever: whoever could set them could write before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from opask.shell.options import operands_of
from opask.shell.values import Check, Command, Word

__all__ = ["check_git"]

_BEFORE: Final = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})

_DIFF_SHORT: Final = "puszwbaRU:M::C::S:G:l:"
_DIFF_LONG: Final = (
    "patch no-patch stat=? numstat shortstat name-only name-status color=? no-color word-diff=? word-diff-regex= cached "
    "staged unified= ignore-all-space ignore-space-change ignore-space-at-eol ignore-blank-lines find-renames=? "
    "find-copies=? no-renames diff-filter= pickaxe-regex pickaxe-all summary raw no-ext-diff no-textconv minimal patience "
    "histogram diff-algorithm= relative=? no-relative exit-code quiet merge-base full-index abbrev=? binary check "
    "compact-summary dirstat=? cumulative text function-context inter-hunk-context= no-prefix src-prefix= dst-prefix= "
    "submodule=? ignore-submodules=? patch-with-stat patch-with-raw color-moved=? ita-invisible-in-index no-index "
    "color-words=? find-copies-harder no-color-moved"
)
_LOG_SHORT: Final = _DIFF_SHORT + "n:iEFPcmgqL:"
_LOG_LONG: Final = (
    f"{_DIFF_LONG} oneline max-count= skip= since= until= after= before= author= committer= grep= all graph no-graph "
    "decorate=? no-decorate decorate-refs= format= pretty=? follow reverse merges no-merges first-parent date= "
    "abbrev-commit no-abbrev-commit branches=? tags=? remotes=? glob= exclude= topo-order date-order author-date-order "
    "left-right left-only right-only cherry-pick cherry-mark cherry boundary simplify-by-decoration simplify-merges "
    "full-history ancestry-path=? walk-reflogs source parents children name-rev regexp-ignore-case invert-grep all-match "
    "extended-regexp fixed-strings perl-regexp no-notes notes=? encoding= relative-date log-size mailmap no-mailmap "
    "use-mailmap min-parents= max-parents= expand-tabs=? no-expand-tabs show-notes clear-decorations dense sparse "
    "remove-empty cc combined-all-paths no-walk=?"
)

# `--remerge-diff` and `--diff-merges=remerge` make objects; `describe --dirty` writes the index, whatever locks are optional.

_READS: Final[Mapping[str, Command]] = {
    "blame": Command("wltfnsecMCL:p", "line-porcelain porcelain root show-stats show-name show-number show-email abbrev= "
        "date= since= incremental reverse first-parent ignore-rev= no-progress color-lines color-by-age"),
    "cat-file": Command("tspe", "batch=? batch-check=? batch-all-objects unordered buffer follow-symlinks allow-unknown-type"),
    "check-attr": Command("a", "all stdin cached"),
    "check-ignore": Command("qvnz", "quiet verbose stdin non-matching no-index"),
    "count-objects": Command("vH", "verbose human-readable", operands=0),
    "describe": Command("", "all tags contains abbrev= candidates= exact-match debug long match= exclude= always first-parent"),
    "diff": Command(_DIFF_SHORT, _DIFF_LONG),
    "diff-index": Command(_DIFF_SHORT + "m", _DIFF_LONG),
    "diff-tree": Command(_DIFF_SHORT + "rtmcv", f"{_DIFF_LONG} root no-commit-id pretty=? format= cc always"),
    "for-each-ref": Command("", "count= sort= format= points-at= merged=? no-merged=? contains=? no-contains=? ignore-case "
        "exclude= omit-empty color=? shell perl python tcl"),
    "grep": Command("aIivwhHEGPFnlLzocpWqe:f:A:B:C:m:", "cached untracked no-index text ignore-case invert-match word-regexp "
        "full-name extended-regexp basic-regexp perl-regexp fixed-strings line-number column files-with-matches name-only "
        "files-without-match null only-matching count color=? no-color break heading show-function context= "
        "after-context= before-context= function-context max-depth= recursive no-recursive max-count= threads= and or "
        "not all-match quiet exclude-standard no-exclude-standard recurse-submodules"),
    "log": Command(_LOG_SHORT, _LOG_LONG, digits=True),
    "ls-files": Command("cdmoiuszktvfx:X:", "cached deleted modified others ignored stage unmerged killed directory "
        "no-empty-directory exclude= exclude-from= exclude-per-directory= exclude-standard error-unmatch full-name "
        "recurse-submodules abbrev=? eol format= deduplicate debug resolve-undo"),
    "ls-tree": Command("drtlz", "long name-only name-status object-only abbrev=? full-name full-tree format="),
    "merge-base": Command("a", "all octopus independent is-ancestor fork-point"),
    "name-rev": Command("", "tags refs= exclude= all name-only no-undefined always"),
    "rev-list": Command(_LOG_SHORT, f"{_LOG_LONG} count objects objects-edge disk-usage=? header timestamp unpacked "
        "filter= no-object-names", digits=True),
    "rev-parse": Command("q", "abbrev-ref=? short=? verify quiet show-toplevel show-prefix show-cdup git-dir absolute-git-dir "
        "git-common-dir is-inside-work-tree is-inside-git-dir is-bare-repository is-shallow-repository all branches=? "
        "tags=? remotes=? symbolic symbolic-full-name show-superproject-working-tree git-path= path-format= revs-only "
        "no-revs flags no-flags default= since= until= show-object-format=?"),
    "shortlog": Command("snecw::", "summary numbered email committer group= format= since= until= all author= no-merges"),
    "show": Command(_LOG_SHORT, _LOG_LONG, digits=True),
    "show-ref": Command("dsq", "head branches heads tags dereference hash=? verify abbrev=? quiet exists"),
    "status": Command("sbvzu::", "short branch show-stash porcelain=? long verbose untracked-files=? ignored=? "
        "ignore-submodules=? ahead-behind no-ahead-behind no-renames find-renames=? no-column"),
    "var": Command("l", operands=1),
    "version": Command("", "build-options", operands=0),
    "whatchanged": Command(_LOG_SHORT, _LOG_LONG, digits=True),
}  # fmt: skip

_FORMATS: Final = frozenset({"--format", "--pretty", "--sort"})
_SIGNATURE: Final = re.compile(r"%[-+ ]?G|signature")
_FILTERS: Final = ("--contains", "--no-contains", "--merged", "--no-merged")
_BRANCH: Final = Command(
    "avri",
    "all remotes list verbose show-current contains=? no-contains=? merged=? no-merged=? points-at= sort= format= color=? "
    "no-color no-column abbrev= no-abbrev ignore-case omit-empty",
)
_TAG: Final = Command(
    "lni",
    "list sort= format= contains=? no-contains=? merged=? no-merged=? points-at= color=? no-column ignore-case omit-empty",
)
_CONFIG: Final = Command(
    "lz",
    "get get-all get-regexp get-urlmatch list show-origin show-scope null name-only global local system worktree includes "
    "no-includes type= bool int path default= all regexp",
)
_WORDS: Final[Mapping[tuple[str, str], Command]] = {
    ("bisect", "log"): Command(operands=0),
    ("config", "get"): _CONFIG,
    ("config", "list"): _CONFIG,
    ("notes", "list"): Command(operands=1),
    ("notes", "show"): Command(operands=1),
    ("reflog", "show"): _READS["log"],
    ("remote", "get-url"): Command("", "push all"),
    ("stash", "list"): _READS["log"],
    ("stash", "show"): Command("puz", _DIFF_LONG + " include-untracked only-untracked"),
    ("submodule", "status"): Command("", "cached recursive"),
    ("worktree", "list"): Command("vz", "porcelain verbose", operands=0),
}


def check_git(words: Sequence[Word]) -> str | None:
    """Return why a git command may change something; None where it only reads."""
    if _verifies(words):
        return "may have a signature verified, by a program that keeps files of its own"
    at = 0
    while at < len(words) and words[at].is_fixed and words[at].text in _BEFORE:
        at += 1
    if at == len(words):
        return "names no sub-command"
    first, rest = words[at], words[at + 1 :]
    if not first.is_fixed:
        return "is a sub-command that is known only at run time"
    if first.text == "--version" and not rest:
        return None
    known = _READS.get(first.text)
    if known is not None:
        return operands_of(known, rest)[1]
    second = rest[0].text if rest and rest[0].is_fixed else ""
    below = _WORDS.get((first.text, second))
    if below is not None:
        return operands_of(below, rest[1:])[1]
    special = _SPECIAL.get(first.text)
    return "is a sub-command that is not known to only read" if special is None else special(rest)


def _verifies(words: Sequence[Word]) -> bool:
    """Tell whether a format or a sort key may ask for signatures, for which git runs gpg, or what its settings name."""
    for at, word in enumerate(words):
        option, glue, _ = word.text.partition("=")
        if option not in _FORMATS:
            continue
        value = word if glue else words[at + 1] if at + 1 < len(words) else None
        if value is not None and (not value.is_fixed or _SIGNATURE.search(value.text)):
            return True
    return False


def _given(words: Sequence[Word]) -> frozenset[str]:
    """Return the long and short options among words that were held to their lists; behind ``--`` is none."""
    found: set[str] = set()
    for word in words:
        if word.is_fixed and word.text == "--":
            break
        if word.is_fixed and word.text.startswith("-"):
            found.add(word.text.partition("=")[0])
    return frozenset(found)


def _lists(command: Command, always: frozenset[str]) -> Check:
    def check(words: Sequence[Word]) -> str | None:
        operands, fault = operands_of(command, words)
        if fault is None and operands and not always & _given(words):
            return "may make something new"
        return fault

    return check


def _config(words: Sequence[Word]) -> str | None:
    asked = {"--get", "--get-all", "--get-regexp", "--get-urlmatch", "--list", "-l"}
    if not asked & _given(words) or not words[0].text.startswith("-"):
        return "may set something"
    return operands_of(_CONFIG, words)[1]


def _remote(words: Sequence[Word]) -> str | None:
    return operands_of(Command("v", "verbose", operands=0), words)[1]


_SPECIAL: Final[Mapping[str, Check]] = {
    "branch": _lists(_BRANCH, frozenset({"--list", *_FILTERS})),
    "tag": _lists(_TAG, frozenset({"-l", "--list", *_FILTERS})),
    "config": _config,
    "reflog": lambda words: None if not words else "may change the reflog",
    "remote": _remote,
}
