# SPDX-License-Identifier: Apache-2.0
"""account.py - what a command sees of its account, in a sandbox of the template $SEEN"""
import os

from e2b import Sandbox
from expect import done

sandbox = Sandbox.create(os.environ["SEEN"])
try:
    print("seen", sandbox.commands.run('echo "$USER $LOGNAME $HOME $(id -u):$(id -g)"', user=os.environ.get("SEEN_AS")).stdout)
finally:
    sandbox.kill()
done()
