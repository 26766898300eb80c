# Rows of rollouts.awk, sorted by agent, task, rollout, source and line, to what is asked of them. A rollout that was
# written twice counts once, as it was written last; a failed attempt that a later one made good is not unresolved.
#
#   a NAME COUNT          totals, such as "a rollouts 1600"
#   c CLASS ATTEMPTS      failed attempts by class, and rollouts that gym marked as failed
#   r REWARD, m MILLISECONDS     one for each rollout
#   t AGENT TASK N MEAN PROMPT   one for each task: over how many rewards, their mean ("-" without any), fingerprint

BEGIN { FS = OFS = "\t"; classes_kept = 100 }

$1 == "bad" { count["unreadable_" $2]++; next }

{
  mine = $5 ~ /^#/ ? $2 : ""
  if (NR == 1 || $3 != agent || $4 != task || $5 != rollout || mine != own) end_rollout()
  if (NR == 1 || $3 != agent || $4 != task) end_task()
  agent = $3; task = $4; rollout = $5; own = mine
  if ($2 == "failures") {
    failed++
    count["attempts_failed"]++
    add_class($12)
  } else {
    done++
    last = $0
    if (prompt == "") prompt = $13
  }
}

END {
  end_rollout()
  end_task()
  for (name in count) print "a", name, count[name]
  for (name in class) print "c", name, class[name]
}

function add_class(name) {
  if (name == "-" || name == "") name = "unknown"
  if (!(name in class) && classes >= classes_kept) name = "other"
  if (!(name in class)) classes++
  class[name]++
}

function end_rollout(  field) {
  if (done) {
    split(last, field, "\t")
    count["rollouts"]++
    if (done > 1) count["duplicates"] += done - 1
    if (field[7] == "-") count["without_reward"]++
    else {
      count["with_reward"]++
      print "r", field[7]
      sum += field[7]
      n++
    }
    add("input", field[8])
    add("output", field[9])
    add("reasoning", field[10])
    if (field[11] != "-") {
      count["with_milliseconds"]++
      print "m", field[11]
    }
    if (field[12] != "-") add_class(field[12])
    seen = 1
  } else if (failed) count["unresolved"]++
  done = failed = 0
}

function add(name, tokens) {
  if (tokens == "-") return
  count["tokens_" name] += tokens
  count["with_" name]++
}

function end_task() {
  if (seen && task != "-") {
    count["tasks"]++
    print "t", agent, task, n + 0, n ? sprintf("%.17g", sum / n) : "-", prompt
  }
  sum = n = seen = 0
  prompt = ""
}
