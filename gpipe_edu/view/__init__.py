"""Pictures of schedules and timelines. Nothing is loaded here, so schedules do not wait for a plotting library."""
