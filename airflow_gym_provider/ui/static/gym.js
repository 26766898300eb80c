// What the pages do beside showing what the server wrote: links out of the frame, a chart, and the news of a live chain.

// Airflow shows us in a frame that may not move the page around it; a link of that page itself may.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a.out");
  if (!link || window.parent === window || event.defaultPrevented || event.button !== 0) return;
  event.preventDefault();
  const outside = window.parent.document.createElement("a");
  outside.href = link.href;
  if (event.ctrlKey || event.metaKey || event.shiftKey) outside.target = "_blank";
  outside.click();
});

// The style sheet's colour of a name, as a canvas takes it: a browser resolves light-dark() for elements only.
function colour(name) {
  const probe = document.createElement("i");
  probe.className = `colour ${name}`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function drawHistory(figure, points) {
  if (!points.at.length) return;
  const kind = points.lights.map((light, at) => (light === "green" && points.resumed[at] ? "resumed" : light));
  const known = points.values.filter((value) => value !== null);
  const low = known.length ? Math.min(...known) : 0;
  // A run without a value stands at the bottom, so that a red night is not a gap.
  const marks = points.values.map((value) => value ?? low);
  const colours = Object.fromEntries([...new Set(kind)].map((name) => [name, colour(name)]));
  const drawMarks = (plot) => {
    const context = plot.ctx;
    context.save();
    points.at.forEach((at, index) => {
      const x = plot.valToPos(at, "x", true);
      const y = plot.valToPos(marks[index], "y", true);
      context.beginPath();
      context.arc(x, y, 3.5 * devicePixelRatio, 0, 2 * Math.PI);
      context.fillStyle = colours[kind[index]];
      context.fill();
    });
    context.restore();
  };
  const axis = { stroke: colour("quiet"), grid: { stroke: colour("line") }, ticks: { stroke: colour("line") } };
  const options = {
    width: figure.clientWidth,
    height: 260,
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
    legend: { show: true, live: true },
    cursor: { drag: { x: true, y: false } },
    axes: [axis, { ...axis, size: 60 }],
    series: [
      {},
      { label: points.metric, stroke: colour("accent"), width: 1.5, spanGaps: true, points: { show: false } },
    ],
    hooks: { draw: [drawMarks] },
  };
  figure.replaceChildren();
  const plot = new uPlot(options, [points.at, points.values], figure);
  plot.over.addEventListener("click", () => {
    const row = [...document.querySelectorAll("#runs tbody tr")].find(
      (one) => one.dataset.run === points.runs[plot.cursor.idx],
    );
    row?.scrollIntoView({ block: "center" });
    row?.querySelector("a")?.focus({ preventScroll: true });
  });
  return plot;
}

const figure = document.getElementById("chart");
if (figure) {
  const points = JSON.parse(document.getElementById("points").textContent);
  let plot = drawHistory(figure, points);
  document.addEventListener("gym-mode", () => {
    plot?.destroy();
    plot = drawHistory(figure, points);
  });
  addEventListener("resize", () => plot?.setSize({ width: figure.clientWidth, height: 260 }));
}

function inWords(seconds) {
  const rest = Math.max(0, Math.floor(seconds));
  const two = (value) => String(value).padStart(2, "0");
  if (rest < 60) return `${rest} s`;
  if (rest < 3600) return `${Math.floor(rest / 60)} min ${two(rest % 60)} s`;
  if (rest < 86400) return `${Math.floor(rest / 3600)} h ${two(Math.floor((rest % 3600) / 60))} min`;
  return `${Math.floor(rest / 86400)} d ${Math.floor((rest % 86400) / 3600)} h`;
}

// A chain that goes on is asked for again; in between its clocks tick.
async function renew() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const [now, next] = [document, page].map((one) => one.getElementById("chain"));
  if (now && next) now.replaceWith(next);
}

function tick() {
  for (const cell of document.querySelectorAll("[data-since]")) {
    cell.textContent = inWords(Date.now() / 1000 - Number(cell.dataset.since));
  }
}

if (document.querySelector("#chain[data-live]")) {
  const clock = setInterval(tick, 1000);
  const step = async () => {
    const live = document.querySelector("#chain[data-live]");
    if (!live) return clearInterval(clock);
    await new Promise((done) => setTimeout(done, 1000 * Number(live.dataset.live)));
    if (!document.hidden) await renew().catch(() => undefined); // the server is away: the next time, then
    return step();
  };
  step();
}
