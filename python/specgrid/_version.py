# SPDX-License-Identifier: Apache-2.0
"""The version, stated once; the build and the extension read it from here."""

__version__ = "0.1.0"
