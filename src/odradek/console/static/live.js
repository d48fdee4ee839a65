// Shares one stream of the server among all tabs of a browser: browsers allow few connections to a
// host, and each stream is one. A tab says what it needs; the stream is opened anew when that
// changes, and closed when no tab is left.
"use strict";

const tabs = new Map(); // port -> {base, tails}
let source = null;
let opened = "";

function wanted() {
  const bases = new Map();
  for (const tab of tabs.values()) {
    const tails = bases.get(tab.base) || new Set();
    tab.tails.forEach((tail) => tails.add(tail));
    bases.set(tab.base, tails);
  }
  return bases;
}

function address() {
  // One cluster at a time: that of the tab that spoke last.
  const last = [...tabs.values()].at(-1);
  if (!last) return "";
  const tails = [...wanted().get(last.base)].map((tail) => "tail=" + encodeURIComponent(tail));
  return last.base + "/live" + (tails.length ? "?" + tails.join("&") : "");
}

function send(message) {
  for (const port of tabs.keys()) port.postMessage(message);
}

function renew() {
  const next = address();
  if (next === opened && source && source.readyState !== EventSource.CLOSED) return;
  if (source) source.close();
  source = null;
  opened = next;
  if (!next) return;
  source = new EventSource(next);
  source.onopen = () => send({ name: "open" });
  source.onerror = () => {
    send({ name: "lost" });
    // A browser tries again by itself unless it got an answer that is no stream.
    if (source && source.readyState === EventSource.CLOSED) setTimeout(renew, 5000);
  };
  for (const name of ["figures", "records"]) {
    source.addEventListener(name, (event) => send({ name, base: next, data: JSON.parse(event.data) }));
  }
}

function take(port, message) {
  if (message.leave) tabs.delete(port);
  else {
    tabs.delete(port); // Set again, so it is the last.
    tabs.set(port, { base: message.base, tails: message.tails || [] });
  }
  renew();
  if (!message.leave && source && source.readyState === EventSource.OPEN) port.postMessage({ name: "open" });
}

self.onconnect = (event) => {
  const port = event.ports[0];
  port.onmessage = (one) => take(port, one.data);
};
