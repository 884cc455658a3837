#!/bin/sh
# Runs a chore: `./x demo` is `cargo xtask demo`, also on a machine that cannot link a program yet.
# Chores are Rust programs: what they install would come too late for themselves.
set -eu
cd "$(dirname "$0")"

if ! command -v cargo >/dev/null; then
    echo "x: there is no cargo here; Widelane needs Rust 1.95 or later, from https://rustup.rs" >&2
    exit 1
fi

if ! command -v cc >/dev/null || ! [ -e /usr/include/stdio.h ]; then
    packages="gcc libc6-dev"
    if [ -w /var/lib/dpkg ]; then
        root=
    elif sudo --non-interactive true 2>/dev/null; then
        root="sudo --non-interactive"
    else
        root=no
    fi
    if [ "$root" = no ] || ! command -v apt-get >/dev/null; then
        echo "x: Rust links with a C compiler, and there is none; run this as root, then try again:" >&2
        printf '\n    apt-get install %s\n\n' "$packages" >&2
        exit 1
    fi
    echo "==> set-up: installing $packages"
    $root apt-get update --quiet=2 >/dev/null
    $root env DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --quiet=2 --no-install-recommends $packages >/dev/null
fi

exec cargo xtask "$@"
