# What Slurm would say of jobs that no machine without their cause can make end so. By the benchmark in the job's name,
# in rows of squeue and of sacct alike; steps have names of their own, but their job's number.
/gym-memory-/ { sub(/FAILED/, "OUT_OF_MEMORY") }
/gym-late-/ { sub(/FAILED/, "DEADLINE") }
/gym-unbootable-/ { sub(/FAILED/, "BOOT_FAIL") }
/gym-newfangled-/ { sub(/RUNNING/, "FROBNICATING") }
/gym-lost-/ { lost[$1 + 0] }
($1 + 0) in lost { next }
# Accounting has been purged of all but the newest.
/gym-purged-/ { newest = $0; next }
{ print }
END { if (newest != "") print newest }
