"""`python -m wakeful.cli`, the same as `python -m wakeful`; `wakeful dev` starts its child processes this way."""

import sys

from wakeful.cli import main

sys.exit(main())
