# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the server under test was built with a sanitizer: slower, and with memory of its own."""

import os

SANITIZED = any(name in os.environ for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"))
