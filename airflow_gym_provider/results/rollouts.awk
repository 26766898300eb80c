# One line of JSON in, one row of tabs out: the few small fields of a rollout, wherever in the line they stand.
#
# Records end at quotation marks, so they alternate between outside and inside of strings, and no line is ever held
# whole: a rollout may be megabytes of text. Keys count only where they belong ("reward" inside of a prompt is text).
# A line that does not end as JSON does (two that a killed job left glued together, say) is "bad".
# Any awk: no gawk functions, no interval expressions.
#
#   ok SOURCE AGENT TASK ROLLOUT LINE REWARD INPUT OUTPUT REASONING MILLISECONDS CLASS PROMPT
#   bad SOURCE                     one for each line that cannot be read; SOURCE is given with -v source=
#
# "-" stands for what is not there. Texts are as JSON spells them; without a rollout index the line number stands there.

BEGIN {
  RS = "\""; FS = "\001"; OFS = "\t"
  column["/_ng_task_index"] = "task"
  column["/_ng_rollout_index"] = "rollout"
  column["/reward"] = "reward"
  column["/failure_kind"] = "kind"
  column["/_ng_failure_class"] = "class"
  column["/agent_ref/name"] = "agent"
  column["/ng_perf/prompt_tokens"] = "input"
  column["/ng_perf/completion_tokens"] = "output"
  column["/ng_perf/reasoning_tokens"] = "reasoning"
  column["/ng_perf/total_latency_ms"] = "milliseconds"
  column["/response/usage/input_tokens"] = "used_input"
  column["/response/usage/output_tokens"] = "used_output"
  column["/response/usage/output_tokens_details/reasoning_tokens"] = "used_reasoning"
  for (i = 1; i < 256; i++) code[sprintf("%c", i)] = i
  deepest = 4 # of the columns above
  new_line()
}

inside {
  if (index($0, "\n")) { # no JSON string holds one: the line was torn inside of this string
    bad = 1
    end_line()
    outside(substr($0, index($0, "\n") + 1))
    next
  }
  if (keep) text = text $0
  if (prompt_depth) digest($0)
  if (escaped($0)) { # the quotation mark belongs to the string
    if (keep) text = text "\""
    next
  }
  inside = 0
  string_ended = 1
  next
}

{ outside($0) }

function new_line() {
  line++
  depth = inside = bad = string_ended = started = prompt_depth = hash = tops = 0
  kind[0] = ""
  path[0] = base[0] = ""
  for (i in column) value[column[i]] = "-"
}

function end_line() {
  if (started || bad) {
    if (bad || depth || inside || tops != 1 || kind[1] != "{") print "bad", source
    else print_row()
  }
  new_line()
}

function print_row(  rollout) {
  rollout = value["rollout"] == "-" || value["task"] == "-" ? "#" line : value["rollout"]
  print "ok", source, value["agent"], value["task"], rollout, line, number("reward"), \
    either("input", "used_input"), either("output", "used_output"), either("reasoning", "used_reasoning"), \
    number("milliseconds"), value[source == "failures" ? "class" : "kind"], hash
}

function either(first, second) { return number(first) != "-" ? number(first) : number(second) }

# NaN, Infinity, null, texts and what is beyond every float are no numbers.
function number(name,  found) {
  found = value[name]
  if (found !~ /^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$/) return "-"
  return found + 0 > 1.7976931348623157e308 || found + 0 < -1.7976931348623157e308 ? "-" : found
}

function escaped(piece,  at) {
  at = length(piece)
  while (at > 0 && substr(piece, at, 1) == "\\") at--
  return (length(piece) - at) % 2
}

# What stands between two strings: structure, numbers, true, false, null.
function outside(piece,  at, mark, token) {
  if (piece == ", " && !string_ended) { begin_string(1); return }
  if (string_ended) {
    string_ended = 0
    if (piece ~ /^[ \t\r]*:/) {
      if (depth <= deepest) path[depth] = base[depth] "/" text
      if (piece == ": ") { begin_string(0); return }
      piece = substr(piece, index(piece, ":") + 1)
      awaited = 0
    } else take(1, text)
    text = ""
  }
  while (at = match(piece, /[][{},\n]/)) {
    token = substr(piece, 1, at - 1)
    mark = substr(piece, at, 1)
    piece = substr(piece, at + 1)
    if (token ~ /[^ \t\r]/) scalar(token)
    if (mark == "{" || mark == "[") open(mark)
    else if (mark == "}" || mark == "]") close_(mark)
    else if (mark == ",") awaited = 1
    else end_line()
  }
  if (piece ~ /[^ \t\r]/) bad = 1
  begin_string(awaited)
}

# After "{" or "," of an object comes a key; anywhere else a string is a value.
function begin_string(may_be_key) {
  inside = started = 1
  text = ""
  keep = depth <= deepest && (kind[depth] == "{" && may_be_key || path[depth] in column)
}

function scalar(token) {
  gsub(/[ \t\r]/, "", token)
  if (token !~ /^(-?[0-9][-+.0-9eE]*|true|false|null|NaN|-?Infinity)$/) bad = 1
  take(0, token)
}

function take(is_text, found) {
  started = 1
  if (depth == 0) bad = 1
  if (depth == 0 || depth > deepest || kind[depth] != "{" || !(path[depth] in column)) return
  gsub(/\t/, " ", found)
  if (is_text ? path[depth] !~ /^\/(_ng_|agent_ref|failure_kind)/ : found == "null") found = "-"
  value[column[path[depth]]] = found
}

function open(mark) {
  started = 1
  if (depth == 0) tops++
  if (depth <= deepest && path[depth] in column) value[column[path[depth]]] = "-"
  depth++
  kind[depth] = mark
  if (depth <= deepest) {
    base[depth] = path[depth - 1] (kind[depth - 1] == "[" ? "/[]" : "")
    path[depth] = base[depth] "/"
  }
  if (!prompt_depth && depth == 2 && base[2] == "/responses_create_params") prompt_depth = depth
  awaited = 1
}

function close_(mark) {
  if (depth == 0 || (kind[depth] == "{") != (mark == "}")) { bad = 1; depth = 0; return }
  depth--
  if (prompt_depth > depth) prompt_depth = 0
  awaited = 0
}

# A fingerprint of what was asked, to tell whether two runs asked the same: length and some characters of each piece.
function digest(piece,  size, step, at) {
  size = length(piece)
  step = int(size / 24) + 1
  for (at = 1; at <= size; at += step) hash = (hash * 131 + code[substr(piece, at, 1)]) % 2147483647
  hash = (hash * 131 + size) % 2147483647
}
