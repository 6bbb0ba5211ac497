// Looks again every few seconds, and changes only what has changed, so that nothing jumps.
"use strict";

const EVERY_MS = 3000;

async function look() {
  const lost = document.getElementById("lost");
  try {
    const answer = await fetch(location.pathname, { cache: "no-store" });
    if (!answer.ok) {
      lost.textContent = `The page can't be read: ${(await answer.text()).trim()}`;
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    renew(document.getElementById("main"), page.getElementById("main"));
    lost.textContent = "";
  } catch {
    lost.textContent = "osmef campaign serve does not answer; what you see is old.";
  }
}

function renew(old, fresh) {
  const parts = [...old.children];
  const news = [...fresh.children];
  if (parts.length !== news.length) {
    old.replaceChildren(...news);
    return;
  }
  parts.forEach((part, at) => {
    if (!part.isEqualNode(news[at])) part.replaceWith(news[at]);
  });
}

function later() {
  setTimeout(async () => {
    if (!document.hidden) await look();
    later();
  }, EVERY_MS);
}

later();
