#!/bin/sh
# Installs what the browser tests need: Debian's Chromium with its driver, and, into a
# given virtual environment, Selenium, axe-core and matplotlib.
#   sh .ci/browser-env.sh VENV
set -eu
venv=${1:?usage: sh .ci/browser-env.sh VENV}
if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -q
  apt-get install -q -y --no-install-recommends chromium chromium-driver fonts-dejavu-core
fi
# Selenium 4.52 asks for a certifi that is not published everywhere. The second package is
# only the carrier of axe-core 4.12.1 (axe.min.js); its own dependencies are not needed.
"$venv/bin/python" -m pip install -q 'selenium==4.51.0' 'matplotlib==3.11.2'
"$venv/bin/python" -m pip install -q --no-deps 'axe-playwright-python==0.1.8'
