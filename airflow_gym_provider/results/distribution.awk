# Output of totals.awk, sorted by kind and number, to lines that summary.py reads; tasks go through as they are.
# Rewards into ten bins of [0, 1] and two for what is beyond, so that runs can be laid side by side.

BEGIN {
  FS = OFS = "\t"
  levels = split("0.05 0.25 0.5 0.75 0.95", level, " ")
}

$1 == "a" { count[$2] = $3; print "s", $2, sprintf("%.17g", $3); next }
$1 == "c" { print; next }
$1 == "t" { print; next }

{
  if ($1 != kind) {
    finish()
    kind = $1
    total = count[kind == "r" ? "with_reward" : "with_milliseconds"]
    name = kind == "r" ? "reward" : "milliseconds"
    seen = mean = squares = 0
    print "s", name "_min", $2
  }
  seen++
  step = $2 - mean
  mean += step / seen
  squares += step * ($2 - mean)
  top = $2
  for (i = 1; i <= levels; i++) {
    at = (total - 1) * level[i] + 1
    if (seen == int(at)) low[i] = $2
    if (seen == int(at) || seen == int(at) + 1) high[i] = $2
  }
  if (kind == "r") bin[$2 < 0 ? "below" : $2 > 1 ? "above" : $2 == 1 ? 9 : int($2 * 10)]++
}

END {
  finish()
  for (i in bin) print "s", "bin_" i, bin[i]
}

function finish() {
  if (!seen) return
  print "s", name "_max", top
  print "s", name "_mean", sprintf("%.17g", mean)
  print "s", name "_std", sprintf("%.17g", seen > 1 ? sqrt(squares / (seen - 1)) : 0)
  for (i = 1; i <= levels; i++) {
    at = (total - 1) * level[i] + 1
    print "s", name "_q" level[i], sprintf("%.17g", low[i] + (high[i] - low[i]) * (at - int(at)))
  }
}
