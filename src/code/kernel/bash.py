# SPDX-License-Identifier: Apache-2.0
# bash.py - the kernel of Bash
