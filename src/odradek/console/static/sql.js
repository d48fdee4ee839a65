// The rows of a query that goes on, in a table of bounded length.
"use strict";

(() => {
  const table = document.querySelector("#rows");
  if (!table) return;
  const most = Number(table.dataset.most);
  const sign = document.querySelector("#rows-sign");
  const note = document.querySelector("#rows-note");
  const stop = document.querySelector("#rows-stop");
  const head = table.tHead.rows[0];
  const body = table.tBodies[0];
  let count = 0;
  let dropped = 0;

  function say(state, text) {
    sign.className = "state " + state;
    sign.textContent = text;
  }

  function end(state, text) {
    source.close();
    stop.disabled = true;
    say(state, text);
  }

  function take(data) {
    if (data.columns.length) {
      head.replaceChildren(...data.columns.map((name) => {
        const cell = document.createElement("th");
        cell.scope = "col";
        cell.textContent = name;
        return cell;
      }));
    }
    count += data.rows.length + data.dropped;
    dropped += data.dropped;
    const rows = data.rows.slice(-most).map((cells) => {
      const row = document.createElement("tr");
      row.append(...cells.map((text) => {
        const cell = document.createElement("td");
        cell.className = "mono break";
        cell.textContent = text;
        return cell;
      }));
      return row;
    });
    body.prepend(...rows.reverse());
    while (body.rows.length > most) body.deleteRow(-1);
    if (count) {
      const shown = body.rows.length < count ? `, the newest ${body.rows.length.toLocaleString("en")} are shown` : "";
      document.querySelector("#rows-count").textContent = `${count.toLocaleString("en")} rows${shown}`;
    }
    if (dropped) note.textContent = `${dropped.toLocaleString("en")} rows came faster than a reader follows and were left out.`;
    if (data.problem) end("bad", data.problem);
    else if (data.final) end("plain", data.final);
  }

  const source = new EventSource(table.dataset.stream);
  source.onopen = () => say("good", "running");
  // Begun again it would show the same rows again, so it is not.
  source.onerror = () => end("bad", "The connection was lost. Load the page again to ask again.");
  source.addEventListener("rows", (event) => take(JSON.parse(event.data)));
  stop.addEventListener("click", () => end("plain", "stopped"));
})();
