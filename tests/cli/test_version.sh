#!/usr/bin/env bash
# The version consists of the number in VERSION and, in a git repository, the commit. --version,
# `info` and records have the same version.
. "$(dirname "$0")/common.sh" "$@"

number=$(<"$source_dir/VERSION")
[[ $number =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "VERSION is '$number'"
grep -q "^## \[$number\]" "$source_dir/CHANGELOG.md" || fail "CHANGELOG.md has no section '[$number]'"
expect 0 --version
version=$(sed 's/^ampscale //' "$scratch/out")
[[ $version =~ ^${number//./\\.}(-dev\+|\+[0-9]+\.)?(g[0-9a-f]{12}(\.dirty)?)?$ ]] || fail "--version says '$version'"
expect 0 info --json
grep -qF "\"version\":\"$version\"" "$scratch/out" || fail "info --json names another version"
expect 0 train --dummy -a resnet8 --image-size 16 --classes 2 -b 2 --steps 1 --out "$scratch/run"
grep -qF "\"version\": \"$version\"" "$scratch/run/run.json" || fail "run.json names another version"

# expect_version REGEX TREE: checks the version that a build of that tree would have.
expect_version() {
    local got
    PATH=$path "$cmake" -DSOURCE="$2" -DOUT="$scratch/version.h" -P "$source_dir/results/version.cmake" >"$scratch/log" 2>&1 ||
        fail "version.cmake: $(<"$scratch/log")"
    got=$(sed -n 's/#define BUILD_VERSION "\(.*\)"/\1/p' "$scratch/version.h")
    [[ $got =~ ^$1$ ]] || fail "the version of '$2' is '$got', not '$1'"
}
cmake=$(command -v cmake) path=$PATH
mkdir "$scratch/tarball"
echo 1.2.3 >"$scratch/tarball/VERSION"
expect_version '1\.2\.3' "$scratch/tarball"
path=/none expect_version "${number//./\\.}" "$source_dir" # without git

command -v git >/dev/null || finish
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
repository=$scratch/repository
here() {
    git -C "$repository" -c user.name=tester -c user.email=tester@localhost -c commit.gpgsign=false "$@" >"$scratch/log" 2>&1 ||
        fail "git $*: $(<"$scratch/log")"
}
mkdir "$repository"
here init
echo 1.2.3 >"$repository/VERSION"
here add VERSION
here commit -m one
here tag v1.2.2 # the tag of another release
expect_version '1\.2\.3-dev\+g[0-9a-f]{12}' "$repository"
grep -qF "\"$(git -C "$repository" rev-parse HEAD)\"" "$scratch/version.h" || fail "the commit is $(<"$scratch/version.h")"
here tag -a -m release v1.2.3
expect_version '1\.2\.3' "$repository"
echo >>"$repository/VERSION"
expect_version '1\.2\.3\+0\.g[0-9a-f]{12}\.dirty' "$repository"
here commit -a -m two
expect_version '1\.2\.3\+1\.g[0-9a-f]{12}' "$repository"
mkdir "$repository/inner" # a tarball unpacked in a repository of something else
echo 4.5.6 >"$repository/inner/VERSION"
expect_version '4\.5\.6' "$repository/inner"
finish
