// What pages do beside what the server made: charts, live figures, live tails, copying, keys. Pages
// work without it. It never puts a text from the server into the page as HTML.
"use strict";

(() => {
  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const base = document.body.dataset.base || "";

  // Theme: system, light, dark. The server reads the cookie, so no page flashes.
  function chooseTheme() {
    const root = document.documentElement;
    const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
    const now = root.dataset.theme || (isDark ? "dark" : "light");
    const next = now === "dark" ? "light" : "dark";
    root.dataset.theme = next;
    document.cookie = `odradek-theme=${next}; path=/; max-age=31536000; samesite=lax`;
    charts.forEach((chart) => chart.draw());
  }

  // Times in the zone of the reader; the page has UTC.
  function localTimes(root = document) {
    for (const time of all("time[datetime]", root)) {
      const date = new Date(time.dateTime);
      if (isNaN(date) || time.title) continue;
      time.title = time.textContent.trim() + " UTC";
      const pad = (value) => String(value).padStart(2, "0");
      const clock = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
      const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
      time.textContent = time.classList.contains("clock") ? clock : `${day} ${clock}`;
    }
  }

  // Charts
  const charts = [];
  const hour = 3600;

  function colour(name) {
    const probe = document.createElement("span");
    probe.className = "only-read";
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  }

  function clock(at) {
    const date = new Date(at * 1000);
    return [date.getHours(), date.getMinutes(), date.getSeconds()]
      .map((part) => String(part).padStart(2, "0")).join(":");
  }

  // For charts of days: the day, and the minute.
  function day(at) {
    const date = new Date(at * 1000);
    const pad = (value) => String(value).padStart(2, "0");
    return `${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${pad(date.getHours())}:${pad(date.getMinutes())}`;
  }

  function bytes(value) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let unit = 0;
    while (Math.abs(value) >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
    return (value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)) + " " + units[unit];
  }

  function count(value) {
    if (value >= 1e6) return (value / 1e6).toFixed(1) + " M";
    if (value >= 1e4) return Math.round(value / 1e3) + " k";
    return value >= 10 || value === 0 ? String(Math.round(value)) : value.toFixed(1);
  }

  class Chart {
    constructor(element) {
      this.element = element;
      this.columns = element.dataset.columns.split(",").map(Number);
      this.labels = element.dataset.labels.split(",");
      this.format = element.dataset.unit === "bytes" ? (v) => bytes(v) + "/s"
        : element.dataset.unit === "rate" ? (v) => count(v) + "/s" : count;
      this.hours = Number(element.dataset.hours || 0);
      this.time = this.hours > 6 ? day : clock;
      this.points = [];
    }
    data() {
      const rows = this.points;
      return [rows.map((row) => row[0]), ...this.columns.map((index) => rows.map((row) => row[index]))];
    }
    draw() {
      if (this.points.length < 2) return; // A line needs two.
      if (this.plot) this.plot.destroy();
      else this.element.replaceChildren();
      const grid = { stroke: colour("line"), width: 1 };
      const axis = { stroke: colour("ink-2"), grid, ticks: grid, font: "12px system-ui" };
      const colours = [colour("accent"), colour("thread")];
      this.plot = new uPlot({
        width: this.element.clientWidth, height: this.element.clientHeight - 36,
        cursor: { drag: { x: false, y: false } },
        scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, 10) * 1.1] } },
        axes: [{ ...axis, space: this.hours > 6 ? 100 : 70, values: (_, ticks) => ticks.map(this.time) }, { ...axis, size: 76, values: (_, ticks) => ticks.map(this.format) }],
        series: [{ label: "Time", value: (_, value) => (value == null ? "–" : this.time(value)) }, ...this.columns.map((_, index) => ({
          label: this.labels[index], stroke: colours[index], width: 2,
          fill: index === 0 ? colour("accent-soft") : undefined,
          points: { show: this.points.length < 3 }, dash: index ? [6, 4] : undefined,
          value: (_, value) => (value == null ? "–" : this.format(value)),
        }))],
      }, this.data(), this.element);
    }
    add(point) {
      if (this.hours) return; // It shows what was.
      this.points.push(point);
      const oldest = point[0] - hour;
      while (this.points.length && this.points[0][0] < oldest) this.points.shift();
      if (this.points.length < 4 || !this.plot) this.draw();
      else this.plot.setData(this.data());
    }
  }

  async function startCharts() {
    const found = all(".chart[data-columns]");
    if (!found.length || !window.uPlot) return;
    found.forEach((element) => charts.push(new Chart(element)));
    const sources = new Map();
    for (const chart of charts) {
      const url = chart.element.dataset.source;
      if (!sources.has(url)) {
        sources.set(url, fetch(url, { headers: { accept: "application/json" } }).then((answer) => (answer.ok ? answer.json() : answer.status)));
      }
      const found = await sources.get(url);
      if (typeof found === "number") {
        put(one(".chart-note", chart.element), `The figures cannot be read (HTTP ${found}). Open ${url} to see why.`);
        continue;
      }
      chart.points = found.slice();
      chart.draw();
      chart.element.dataset.points = chart.points.length;
    }
    let waiting = 0;
    new ResizeObserver(() => {
      clearTimeout(waiting);
      waiting = setTimeout(() => charts.forEach((chart) => chart.draw()), 150);
    }).observe(found[0]);
  }

  // Live figures
  function put(element, text) {
    if (element && element.textContent !== text) element.textContent = text;
  }

  function showFigures(data) {
    const notice = one("#live-problem");
    if (notice) {
      notice.hidden = !data.problem;
      put(one("p", notice), data.problem);
    }
    if (data.problem) return;
    for (const [name, [text, state]] of Object.entries(data.tiles)) {
      const tile = one(`[data-tile="${CSS.escape(name)}"]`);
      if (!tile) continue;
      put(one("dd", tile), text);
      tile.dataset.state = state;
    }
    for (const [id, cells] of Object.entries(data.brokers)) {
      for (const [name, text] of Object.entries(cells)) {
        put(one(`[data-broker="${id}"] [data-cell="${name}"]`), text);
      }
    }
    for (const element of all("[data-lag-of]")) {
      const lag = data.lag[element.dataset.lagOf];
      if (lag) put(element, element.dataset.unit === "seconds" ? lag[1] : lag[0].toLocaleString("en"));
    }
    const events = one("#events");
    if (events && data.events.length) {
      put(one("#no-events"), "");
      events.replaceChildren(...data.events.map(([at, severity, text]) => {
        const item = document.createElement("li");
        const time = document.createElement("time");
        time.className = "clock quiet";
        time.dateTime = new Date(at).toISOString();
        time.textContent = time.dateTime.slice(11, 19);
        const words = document.createElement("span");
        words.className = "state " + severity;
        words.textContent = text;
        item.append(time, words);
        return item;
      }));
      localTimes(events);
    }
    if (!data.point) return;
    for (const chart of charts) {
      const group = chart.element.dataset.group;
      if (group === undefined) chart.add(data.point);
      else if (data.lag[group]) chart.add([data.point[0], data.lag[group][0]]);
    }
  }

  // Live tails
  const tail = one("#tail");
  const shownRecords = 200;
  let dropped = 0;
  let isPaused = false;

  function showRecords(data) {
    if (!tail || data.tail !== tail.dataset.tail) return;
    dropped += data.dropped;
    const note = one("#tail-note");
    if (data.problem) put(note, data.problem);
    else if (dropped) {
      put(note, `${dropped.toLocaleString("en")} records came faster than a reader follows and are not shown here. A filter lets fewer through.`);
    }
    if (isPaused || !data.records.length) return;
    put(one("#tail-wait"), "");
    const rows = data.records.map((record) => {
      const row = document.createElement("tr");
      const time = document.createElement("time");
      time.dateTime = record.time;
      time.textContent = record.time.slice(0, 19).replace("T", " ");
      const link = document.createElement("a");
      link.href = `${tail.dataset.url}/${record.partition}/${record.offset}`;
      link.textContent = `${record.partition} : ${record.offset}`;
      for (const [kind, content] of [["when", time], ["place", link], ["key mono", record.key], ["mono", record.value]]) {
        const cell = document.createElement("td");
        cell.className = kind;
        cell.append(content);
        row.append(cell);
      }
      return row;
    });
    tail.prepend(...rows.reverse());
    while (tail.rows.length > shownRecords) tail.deleteRow(-1);
    localTimes(tail);
  }

  // The stream, by the shared worker where there is one
  function startLive() {
    const needsFigures = one("[data-live]");
    if (!base || (!needsFigures && !tail)) return;
    const tails = tail ? [tail.dataset.tail] : [];
    const take = (message) => {
      if (message.name === "figures" && message.base.startsWith(base + "/live")) showFigures(message.data);
      else if (message.name === "records") showRecords(message.data);
      else if (message.name === "open" || message.name === "lost") {
        const sign = one("#live-sign");
        if (sign) {
          sign.className = "state " + (message.name === "open" ? "good" : "warn");
          put(sign, message.name === "open" ? "live" : "connecting again");
        }
      }
    };
    const say = () => ({ base, tails });
    if (window.SharedWorker) {
      const worker = new SharedWorker(document.body.dataset.live, "odradek-live");
      worker.port.onmessage = (event) => take(event.data);
      worker.port.postMessage(say());
      window.addEventListener("pagehide", () => worker.port.postMessage({ leave: true }));
      window.addEventListener("pageshow", (event) => { if (event.persisted) worker.port.postMessage(say()); });
      document.addEventListener("visibilitychange", () => { if (!document.hidden) worker.port.postMessage(say()); });
      return;
    }
    const query = tails.map((name) => "tail=" + encodeURIComponent(name)).join("&");
    const source = new EventSource(base + "/live" + (query ? "?" + query : ""));
    source.onopen = () => take({ name: "open" });
    source.onerror = () => take({ name: "lost" });
    for (const name of ["figures", "records"]) {
      source.addEventListener(name, (event) => take({ name, base: base + "/live", data: JSON.parse(event.data) }));
    }
  }

  // Small things
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-do]");
    if (!button) return;
    const what = button.dataset.do;
    if (what === "theme") chooseTheme();
    else if (what === "keys") one("#keys").showModal();
    else if (what === "fill") {
      const field = one(button.dataset.into);
      field.value = button.value;
      field.focus();
    }
    else if (what === "close") button.closest("dialog").close();
    else if (what === "copy") {
      await navigator.clipboard.writeText(one(button.dataset.from).textContent);
      const before = button.textContent;
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = before; }, 1500);
    } else if (what === "pause") {
      isPaused = !isPaused;
      button.textContent = isPaused ? "Go on" : "Pause";
      button.setAttribute("aria-pressed", String(isPaused));
    } else if (what === "show") {
      const row = one(button.dataset.row);
      row.hidden = !row.hidden;
      button.setAttribute("aria-expanded", String(!row.hidden));
      button.textContent = row.hidden ? "Show" : "Hide";
    } else if (what === "pretty") {
      const area = one(button.dataset.from);
      try { area.value = JSON.stringify(JSON.parse(area.value), null, 2); area.setCustomValidity(""); }
      catch (error) { area.setCustomValidity("This is not JSON: " + error.message); area.reportValidity(); }
    } else if (what === "save-filter") {
      const text = one("#filter").value.trim();
      if (!text) return;
      const known = savedFilters().filter((filter) => filter !== text);
      localStorage.setItem("odradek-filters", JSON.stringify([text, ...known].slice(0, 30)));
      listFilters();
    }
  });

  function savedFilters() {
    try {
      const found = JSON.parse(localStorage.getItem("odradek-filters") || "[]");
      return Array.isArray(found) ? found.map(String) : [];
    } catch { return []; }
  }

  function listFilters() {
    const list = one("#saved-filters");
    if (!list) return;
    list.replaceChildren(...savedFilters().map((text) => {
      const option = document.createElement("option");
      option.value = text;
      return option;
    }));
  }

  // A name that must be typed: the button says no until it is right. The server checks it too.
  for (const form of all("form[data-confirm]")) {
    const button = one("button[type=submit]", form);
    const input = one("input[name=confirm]", form);
    const check = () => { button.disabled = input.value.trim() !== form.dataset.confirm; };
    input.addEventListener("input", check);
    check();
  }

  // A box that selects all rows, and buttons that need a selection
  function showSelected() {
    for (const form of all("form[id=selected]")) {
      const boxes = all('input[type=checkbox][form="selected"]');
      const count = boxes.filter((box) => box.checked).length;
      for (const button of all("button", form)) {
        button.disabled = count === 0 || (button.value === "clone" && count !== 1);
      }
      const whole = one("input[data-all]");
      if (whole) {
        whole.checked = count > 0 && count === boxes.length;
        whole.indeterminate = count > 0 && count < boxes.length;
      }
    }
  }
  document.addEventListener("change", (event) => {
    const whole = event.target.closest("input[data-all]");
    if (whole) {
      for (const box of all(`input[type=checkbox][name="${whole.dataset.all}"]`)) box.checked = whole.checked;
    }
    showSelected();
  });
  document.addEventListener("htmx:afterSettle", showSelected);
  window.addEventListener("pageshow", showSelected);
  showSelected();

  // Fields that belong to a choice are shown with it.
  function showChosen() {
    for (const element of all("[data-when]")) {
      const [name, values] = element.dataset.when.split("=");
      const chosen = one(`[name="${name}"]:checked, select[name="${name}"]`);
      const isShown = Boolean(chosen) && values.split("|").includes(chosen.value);
      element.hidden = !isShown;
      all("input, select, textarea", element).forEach((field) => { field.disabled = !isShown; });
    }
  }
  document.addEventListener("change", showChosen);

  for (const input of all("input[type=file][data-into]")) {
    input.addEventListener("change", async () => {
      const file = input.files[0];
      const binary = input.dataset.binary ? one(input.dataset.binary) : null;
      if (binary) binary.value = "";
      if (!file) return;
      if (!binary || !file.name.endsWith(".parquet")) {
        one(input.dataset.into).value = await file.text();
        return;
      }
      one(input.dataset.into).value = "";
      put(one(`#h-${input.id}`), `${file.name} is being read.`);
      const bytes = new Uint8Array(await file.arrayBuffer());
      let text = "";
      for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
      // The letters that a form need not escape.
      binary.value = btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
      put(one(`#h-${input.id}`), `${file.name} is chosen, with ${bytes.length.toLocaleString("en")} bytes.`);
    });
  }

  for (const area of all("textarea[data-submit]")) {
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) area.form.requestSubmit();
    });
  }

  // Keys: / for the search, g and a letter for a section, ? for help.
  let waitsForLetter = false;
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (waitsForLetter) {
      waitsForLetter = false;
      const link = one(`.side a[data-key="${CSS.escape(event.key)}"]`);
      if (link) link.click();
      return;
    }
    if (event.key === "/") {
      const search = one("input[type=search]");
      if (search) { event.preventDefault(); search.focus(); search.select(); }
    } else if (event.key === "g") waitsForLetter = true;
    else if (event.key === "?") one("#keys").showModal();
  });

  // On a narrow screen the sections are in one line, of which a part is seen.
  const section = one(".side a[aria-current]");
  if (section) section.scrollIntoView({ block: "nearest", inline: "center" });

  document.body.addEventListener("htmx:afterSwap", () => localTimes());
  localTimes();
  listFilters();
  showChosen();
  startCharts();
  startLive();
})();
