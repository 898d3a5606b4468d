"""What Wakeful is measured against: bare loops as floors, and engines that a user could pick instead."""
