"""Task decorators: `@task.gym_eval`."""
