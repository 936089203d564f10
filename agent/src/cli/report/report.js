// The parts of the report that are long: the list of records, and every leader of a seat when its row is opened.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const element = (id) => document.getElementById(id);
  const PAGE = 100;
  const MAX_LEADERS = 1000;

  function shown(ms) {
    let offset = 0;
    for (const [from, zoneOffset] of data.offsets) if (ms >= from) offset = zoneOffset;
    return new Date(ms + offset).toISOString().replace("T", " ").slice(0, 23);
  }

  function length(ms) {
    const s = Math.floor(ms / 1000);
    if (s < 1) return `${ms} ms`;
    if (s < 60) return `${(ms / 1000).toFixed(s < 10 ? 1 : 0)} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
  }

  function row(cells, header) {
    const tr = document.createElement("tr");
    for (const [text, name] of cells) {
      const cell = document.createElement(header ? "th" : "td");
      if (header) cell.scope = "col";
      if (name) cell.className = name;
      cell.textContent = text;
      tr.append(cell);
    }
    return tr;
  }

  function leaders(seat) {
    const spans = data.spans[seat];
    const table = document.createElement("table");
    const head = table.createTHead();
    head.append(row([["From"], ["For", "number"], ["Leader"], ["Address"]], true));
    const body = table.createTBody();
    for (const [from, to, leader, address] of spans.slice(-MAX_LEADERS).reverse())
      body.append(row([[shown(from), "time"], [length(to - from), "number"], [leader || "no leader", leader ? "" : "mood3"], [address]]));
    const box = document.createElement("div");
    box.className = "scroll";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Leaders, the latest first");
    box.append(table);
    if (spans.length > MAX_LEADERS) {
      const note = document.createElement("p");
      note.textContent = `The latest ${MAX_LEADERS} of ${spans.length}.`;
      box.append(note);
    }
    return box;
  }

  for (const details of document.querySelectorAll("details.seat"))
    details.addEventListener("toggle", () => {
      if (details.open && !details.dataset.filled) {
        details.dataset.filled = "yes";
        details.append(leaders(Number(details.dataset.seat)));
      }
    });

  const events = [...new Set(data.rows.map((record) => record[3]))].map((number) => data.names[number]).sort();
  for (const name of events) element("event").append(new Option(name, name));

  const body = element("list").tBodies[0];
  let found = [];
  let first = 0;

  function search() {
    const words = element("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const event = element("event").value;
    const names = data.names.map((name) => name.toLowerCase());
    found = [];
    for (let at = data.rows.length - 1; at >= 0; at--) {
      const [, cluster, process, kind, seat, , text] = data.rows[at];
      if (event && data.names[kind] !== event) continue;
      const matches = (word) =>
        names[cluster].includes(word) || names[process].includes(word) || names[kind].includes(word) ||
        names[seat].includes(word) || text.toLowerCase().includes(word);
      if (words.every(matches)) found.push(at);
    }
    first = 0;
    show();
  }

  function show() {
    const last = Math.min(first + PAGE, found.length);
    body.replaceChildren(...found.slice(first, last).map((at) => {
      const [ms, cluster, process, kind, seat, mood, text] = data.rows[at];
      return row([[shown(ms), "time"], [data.names[cluster]], [data.names[process]], [data.names[kind], `mood${mood}`], [data.names[seat]], [text]]);
    }));
    element("status").textContent = found.length
      ? `${first + 1} to ${last} of ${found.length} records, the latest first`
      : "No record matches.";
    element("newer").disabled = first === 0;
    element("older").disabled = last === found.length;
  }

  element("find").addEventListener("input", search);
  element("event").addEventListener("change", search);
  element("filter").addEventListener("submit", (event) => event.preventDefault());
  element("newer").addEventListener("click", () => { first = Math.max(0, first - PAGE); show(); });
  element("older").addEventListener("click", () => { first += PAGE; show(); });
  for (const id of ["filter", "list", "pages"]) element(id).hidden = false;
  search();
})();
