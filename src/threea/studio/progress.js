// Live progress of a job: the one script of the studio. Without it the page loads itself anew.
"use strict";
const job = document.getElementById("job");
if (job && job.dataset.events) {
  const stage = document.getElementById("stage");
  const bar = document.getElementById("bar");
  const source = new EventSource(job.dataset.events);
  source.onmessage = (event) => {
    const now = JSON.parse(event.data);
    if (now.ended) {
      source.close();
      location.reload();
      return;
    }
    const part = now.of ? ` (${Math.round((100 * now.done) / now.of)}%)` : "";
    const said = (now.stopping ? "stopping" : now.stage) + part;
    if (stage.textContent !== said) stage.textContent = said;
    if (now.of) {
      bar.max = now.of;
      bar.value = now.done;
    } else {
      bar.removeAttribute("value");
    }
  };
}
