"""`python -m wakeful.cli`, as `python -m wakeful`; `wakeful dev` starts itself in this way."""

import sys

from wakeful.cli import main

sys.exit(main())
