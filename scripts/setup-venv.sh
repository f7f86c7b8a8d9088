#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# usage: setup-venv.sh DIR REQUIREMENTS: a virtual environment with exactly these packages.
set -eu

python=/usr/bin/python3 # Debian's, whose venv module install-deps.sh has seen to
[ -x "$python" ] || python=python3
[ -x "$1/bin/python" ] || "$python" -m venv "$1"
"$1/bin/python" -m pip install --quiet --disable-pip-version-check -r "$2"
