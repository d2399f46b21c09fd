// Hover and copy; the page says everything else without it.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");

  // -- copy -------------------------------------------------------------------------
  const fallback = (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    area.setAttribute("readonly", "");
    area.style.cssText = "position:fixed;top:0;opacity:0";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  for (const button of document.querySelectorAll(".paste button")) {
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("pre").textContent;
      let done = false;
      try {
        await navigator.clipboard.writeText(text);
        done = true;
      } catch {
        done = fallback(text);
      }
      button.focus();
      button.textContent = done ? "Copied" : "Select and copy";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  // -- the coverage map ---------------------------------------------------------------
  const map = document.getElementById("map");
  const source = document.getElementById("map-data");
  if (!map || !source) return;
  const { widest, rows } = JSON.parse(source.textContent);
  const readout = document.getElementById("readout");
  const number = (n) => n.toLocaleString("en-US");
  const inside = (spans, batch) => spans.some(([lo, hi]) => lo <= batch && batch <= hi);
  const find = (row, batch) => {
    let low = 0, high = row.runs.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const [lo, hi] = row.runs[middle];
      if (batch < lo) high = middle - 1;
      else if (batch > hi) low = middle + 1;
      else return row.runs[middle];
    }
    return null;
  };
  const rowOf = (batch) => {
    const y = rows.findIndex((row) => inside(row.decoded, batch));
    return y < 0 ? 0 : y;
  };
  // Words shared with the server-side first readout: specgrid.cli._report.words.
  const words = (row, batch) => {
    const run = find(row, batch);
    const q = row.query_len, asked = batch * q;
    const head = `Batch ${number(batch)}, query length ${q}: ${number(asked)} tokens. `;
    if (!run) return [head, "Not listed."];
    const [, , mode, served, own, hider] = run;
    let text;
    if (mode === "NONE") text = "No graph holds it; it runs eager.";
    else {
      const padding = served[0] - asked;
      text = `${mode} graph of ${number(served[0])} tokens, ${number(padding)} of them padding.`;
    }
    if (hider) {
      text += ` Its own FULL graph (${number(own[0])} tokens) is captured, but hidden by the `
        + `${number(hider[0])}-token graph of query length ${hider[1]}.`;
    }
    if (!inside(row.decoded, batch)) {
      text += " The schedule decodes this batch at another query length.";
    }
    return [head, text];
  };

  const cursor = document.createElement("div");
  cursor.className = "cursor";
  const spot = document.createElement("div");
  spot.className = "spot";
  map.append(cursor, spot);
  map.tabIndex = 0;
  let batch = +map.dataset.batch, y = +map.dataset.row;

  const frame = () => {
    for (const svg of map.querySelectorAll("svg")) {
      if (svg.getClientRects().length) {
        const [x0, x1, y0, y1] = svg.dataset.axes.split(" ").map(Number);
        return { x0, x1, y0, y1, box: svg.getBoundingClientRect() };
      }
    }
    return null;
  };
  const show = () => {
    const at = frame();
    if (!at) return;
    const x = at.x0 + (at.x1 - at.x0) * (batch - 0.5) / widest;
    const row = at.y1 - (at.y1 - at.y0) * (y + 0.5) / rows.length;
    cursor.style.left = `${100 * x}%`;
    cursor.style.top = `${100 * at.y0}%`;
    cursor.style.height = `${100 * (at.y1 - at.y0)}%`;
    spot.style.left = `${100 * x}%`;
    spot.style.top = `${100 * row}%`;
    const [head, text] = words(rows[y], batch);
    const bold = document.createElement("b");
    bold.textContent = head;
    readout.replaceChildren(bold, text);
  };
  const point = (event) => {
    const at = frame();
    if (!at) return;
    const x = (event.clientX - at.box.left) / at.box.width;
    const v = (event.clientY - at.box.top) / at.box.height;
    batch = Math.ceil(((x - at.x0) / (at.x1 - at.x0)) * widest);
    batch = Math.min(Math.max(batch, 1), widest);
    y = Math.floor(((at.y1 - v) / (at.y1 - at.y0)) * rows.length);
    y = Math.min(Math.max(y, 0), rows.length - 1);
    show();
  };
  map.addEventListener("pointermove", point);
  map.addEventListener("pointerdown", point);

  // Batches without a FULL graph, in the order of batches, for Page Up and Page Down.
  const missed = [];
  rows.forEach((row, index) => {
    for (const [lo, hi, mode] of row.runs) {
      if (mode === "FULL") continue;
      for (const [first, last] of row.decoded) {
        const a = Math.max(lo, first), b = Math.min(hi, last);
        if (a <= b) missed.push([a, b, index]);
      }
    }
  });
  missed.sort((a, b) => a[0] - b[0]);
  const jump = (forward) => {
    if (forward) {
      for (const [lo, hi, index] of missed) {
        if (hi > batch) return [Math.max(lo, batch + 1), index];
      }
    } else {
      for (const [lo, hi, index] of [...missed].reverse()) {
        if (lo < batch) return [Math.min(hi, batch - 1), index];
      }
    }
    return null;
  };
  map.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const step = event.shiftKey ? Math.max(1, Math.round(widest / 16)) : 1;
    const before = batch;
    if (event.key === "ArrowRight") batch = Math.min(batch + step, widest);
    else if (event.key === "ArrowLeft") batch = Math.max(batch - step, 1);
    else if (event.key === "ArrowUp") y = Math.min(y + 1, rows.length - 1);
    else if (event.key === "ArrowDown") y = Math.max(y - 1, 0);
    else if (event.key === "Home") { batch = 1; y = rowOf(batch); }
    else if (event.key === "End") { batch = widest; y = rowOf(batch); }
    else if (event.key === "PageDown" || event.key === "PageUp") {
      const found = jump(event.key === "PageDown");
      if (found) [batch, y] = found;
    } else return;
    // Along the diagonal the row follows the batch.
    if (batch !== before && inside(rows[y].decoded, before)
        && !inside(rows[y].decoded, batch)) y = rowOf(batch);
    event.preventDefault();
    show();
  });
  addEventListener("resize", show);
  show();
})();
