"""One folder per task. None knows another; what several need stands in `judge`, or in `judge/guest`."""
