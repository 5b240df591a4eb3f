// Everything can be read without this. It follows Airflow's colours, leads out of its frame, filters lists, and keeps
// the page of a run under way up to date.
"use strict";

const parentDocument = (() => {
  try {
    return window.parent !== window ? window.parent.document : null;
  } catch {
    return null; // framed by another site, which the policy forbids
  }
})();

function followColours() {
  const own = document.documentElement;
  const airflow = parentDocument?.documentElement;
  const set = () => {
    const classes = airflow?.classList;
    const said = classes?.contains("dark") ? "dark" : classes?.contains("light") ? "light" : window.localStorage.getItem("theme");
    if (said === "dark" || said === "light") own.dataset.theme = said;
    else delete own.dataset.theme;
  };
  set();
  if (airflow) new MutationObserver(set).observe(airflow, { attributes: true, attributeFilter: ["class"] });
}
followColours();
// Airflow's frame has a header with the DAG's name of its own.
if (parentDocument) document.documentElement.dataset.framed = "";

// Airflow's frame may not lead its window elsewhere; a link in the window's own document may.
function leadOut(event) {
  const link = event.target.closest("a[data-airflow]");
  if (!link || !parentDocument || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const outside = parentDocument.createElement("a");
  outside.href = link.href;
  parentDocument.body.append(outside);
  outside.click();
  outside.remove();
}

function filterRows(event) {
  const field = event.target.closest("input[data-filters]");
  if (!field) return;
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of document.querySelectorAll(`#${field.dataset.filters} tbody tr`)) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
}

function choose(event) {
  if (event.target.matches("select[data-sends]")) event.target.form.requestSubmit();
}

// The page of a run under way names its JSON, and the tag of the facts that it shows. Only when these have changed is
// it fetched again. Once the run has ended the page names no JSON, and nothing is requested any more.
const EVERY = 5000;
const SLOWEST = 60000;
const NO_MORE = [401, 403, 404];
let waiting = null;
let failures = 0;

async function refresh() {
  window.clearTimeout(waiting);
  waiting = null;
  const main = document.querySelector("main[data-live]");
  if (!main || document.hidden) return; // a tab that is shown again goes on
  countOn();
  try {
    const answer = await fetch(main.dataset.live, { headers: { "If-None-Match": main.dataset.tag } });
    if (NO_MORE.includes(answer.status)) return;
    failures = answer.ok || answer.status === 304 ? 0 : failures + 1;
    if (answer.ok) await replace(main);
  } catch {
    failures += 1; // Airflow does not answer: the next attempt may find it
  }
  window.clearTimeout(waiting);
  waiting = window.setTimeout(refresh, Math.min(EVERY * 2 ** failures, SLOWEST));
}

async function replace(main) {
  const answer = await fetch(window.location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const next = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  const focused = document.activeElement;
  if (!next || (focused && main.contains(focused) && focused.matches("input, select"))) return;
  const lefts = [...main.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  main.replaceWith(next);
  next.querySelectorAll(".scroll").forEach((one, place) => (one.scrollLeft = lefts[place] ?? 0));
}

function countOn() {
  for (const field of document.querySelectorAll("[data-since]")) {
    field.textContent = inWords((Date.now() - Date.parse(field.dataset.since)) / 1000);
  }
}

// As the server writes it.
function inWords(seconds) {
  if (seconds < 60) return `${Math.max(seconds, 0).toFixed(1)} s`;
  const [unit, name, part, rest] = seconds >= 86400 ? [86400, "d", 3600, "h"] : seconds >= 3600 ? [3600, "h", 60, "min"] : [60, "min", 1, "s"];
  return `${Math.floor(seconds / unit)} ${name} ${Math.floor((seconds % unit) / part)} ${rest}`;
}

document.addEventListener("click", leadOut);
document.addEventListener("input", filterRows);
document.addEventListener("change", choose);
document.addEventListener("visibilitychange", refresh);
waiting = window.setTimeout(refresh, EVERY);
