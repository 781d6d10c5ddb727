"use strict";
// Positions of the service count code points; JavaScript's strings count UTF-16 units, so texts
// are cut as arrays of code points. All text is set as text, never as markup.

const $ = (id) => document.getElementById(id);
const make = (name, text = "", kind = "") => {
  const made = Object.assign(document.createElement(name), { textContent: text });
  if (kind) made.className = kind;
  return made;
};
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

const EXAMPLE = [
  "Chief Complaint: Shortness of breath.\n\n"
    + "Allergies: penicillin (rash).\n\n"
    + "History: 74-year-old man with heart failure, COPD and a history of stroke. His mother had "
    + "breast cancer. No chest pain, denies fever. He stopped his furosemide two weeks ago. "
    + "Lives alone.\n\n"
    + "Assessment: acute decompensated heart failure; possible pneumonia.",
  "Hospital Course: Diuresed with intravenous furosemide, lost 4 kg. CT negative for pulmonary "
    + "embolism.\n\n"
    + "Discharge Medications: furosemide 40 mg daily, lisinopril 10 mg daily.\n\n"
    + "Discharge Instructions: Return if you have chest pain or fever.",
];

let tasks = {};
let notes = [];

function addNote(text = "") {
  const number = $("notes").children.length + 1;
  const label = make("label", `Note ${number}`);
  const area = make("textarea");
  area.id = label.htmlFor = `note-${number}`;
  area.spellcheck = false;
  area.value = text;
  const both = make("div");
  both.append(label, area);
  $("notes").append(both);
  return area;
}

function say(text, isError = false) {
  $("message").textContent = text;
  $("message").classList.toggle("error", isError);
}

async function post(task, records) {
  const answer = await fetch(`/v1/${task}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ records }),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

async function read() {
  const given = [...document.querySelectorAll("#notes textarea")].map((area) => area.value);
  notes = given.filter((text) => text.trim());
  if (!notes.length) {
    say("Paste a note first.", true);
    document.querySelector("#notes textarea").focus();
    return;
  }
  $("read").disabled = true;
  say("Reading …");
  try {
    const [risks, passages, entities] = await Promise.all([
      post("readmission", [{ text: notes }]),
      post("passages", [{ text: notes }]),
      tasks.entities ? post("entities", notes.map((text) => ({ text }))) : { records: [] },
    ]);
    show(risks.records[0], passages.records, entities.records);
    $("version").textContent =
      `Model ${risks.model} ${risks.fingerprint.slice(0, 12)}, domainbert ${risks.version}`;
  } catch (error) {
    say(error.message, true);
  }
  $("read").disabled = false;
}

function show(risk, passages, entities) {
  if (risk.status !== "ok") {
    $("result").hidden = true;
    say(risk.reason, true);
    return;
  }
  const percent = Math.round(100 * risk.probability);
  $("percent").textContent = `${percent}%`;
  $("bar").value = 100 * risk.probability;
  $("bar").textContent = `${percent}%`;
  $("meaning").textContent = risk.calibrated
    ? `Of 100 patients with such a risk, about ${percent} have the outcome.`
    : "This model has no calibrator: the number ranks stays, it is not a chance.";
  if (risk.alert) $("meaning").textContent += " It is above the model's alert threshold.";
  document.querySelector(".risk").classList.toggle("alert", Boolean(risk.alert));
  facts({
    "Read": `${risk.reason ? "" : "all "}${plural(risk.n_tokens, "token")} of ${plural(notes.length, "note")}`,
    "Windows": risk.n_windows,
    "Riskiest window": risk.p_max.toFixed(3),
    "Mean of the windows": risk.p_mean.toFixed(3),
    "Score before calibration": risk.score.toFixed(3),
    ...(risk.reason ? { "Remarks": risk.reason } : {}),
  });
  const found = passages.filter((passage) => passage.passage);
  $("passages").replaceChildren(...found.map(passageLine));
  if (!found.length) $("passages").append(make("li", "No passage stands out."));
  $("text").replaceChildren(...notes.map((text, note) => noteView(text, note, found, entities)));
  $("entity-legend").hidden = !entities.length;
  $("ask").hidden = !tasks.answers;
  $("answers").replaceChildren();
  $("result").hidden = false;
  say("");
  $("result").focus();
}

function facts(values) {
  $("facts").replaceChildren(
    ...Object.entries(values).map(([name, value]) => {
      const both = make("div");
      both.append(make("dt", name), make("dd", String(value)));
      return both;
    }),
  );
}

function passageLine(passage) {
  const line = make("li");
  const change = passage.probability_contribution;
  const points = Math.abs(100 * change).toFixed(1);
  const said = points === "0.0" ? "under 0.1" : `${change < 0 ? "−" : "+"}${points}`;
  line.append(
    make("mark", passage.text, passage.direction),
    ` note ${passage.note + 1}; ${said} points of the risk`,
  );
  return line;
}

function noteView(text, note, passages, entities) {
  const points = Array.from(text);
  const marks = passages.filter((each) => each.note === note);
  const named = entities.filter((each) => each.row === note && each.label);
  const cues = named
    .filter((each) => each.cue)
    .map((each) => ({ start: each.cue_start, end: each.cue_end, assertion: each.assertion }));
  const edges = new Set([0, points.length]);
  for (const each of [...marks, ...named, ...cues]) edges.add(each.start).add(each.end);
  const sorted = [...edges].sort((a, b) => a - b);
  const pre = make("pre");
  for (let i = 0; i + 1 < sorted.length; i += 1) {
    const [start, end] = [sorted[i], sorted[i + 1]];
    const within = (each) => each.start <= start && end <= each.end;
    const [mark, entity, cue] = [marks, named, cues].map((all) => all.find(within));
    let part = document.createTextNode(points.slice(start, end).join(""));
    if (cue) {
      const underlined = make("u", "", "cue");
      underlined.title = `cue: ${cue.assertion}`;
      underlined.append(part);
      part = underlined;
    }
    if (entity) {
      const tagged = make(mark ? "span" : "mark", "", `entity ${entity.assertion}`);
      const asserted = entity.assertion ? `, ${entity.assertion}` : "";
      tagged.title = `${entity.label} ${entity.score.toFixed(2)}${asserted}`;
      tagged.append(part);
      const remark = entity.assertion === "present" ? "" : asserted;
      if (entity.end === end) tagged.append(make("sup", `${entity.label}${remark}`));
      part = tagged;
    }
    if (mark) {
      const tinted = make("mark", "", mark.direction);
      tinted.append(part);
      if (mark.end === end) {
        tinted.append(make("sup", `${mark.passage}${mark.direction === "raises" ? "▲" : "▼"}`));
      }
      part = tinted;
    }
    pre.append(part);
  }
  const article = make("article", "", "note");
  article.append(make("h3", `Note ${note + 1}`), pre);
  return article;
}

async function ask(event) {
  event.preventDefault();
  const question = $("question").value.trim();
  if (!question) return;
  try {
    const { records } = await post("answers", [{ question, context: notes }]);
    const found = records.filter((each) => each.answer);
    $("answers").replaceChildren(
      ...found.map((each) => {
        const line = make("li");
        line.append(make("strong", each.answer), ` note ${each.document + 1}: “${each.sentence}”`);
        return line;
      }),
    );
    if (!found.length) $("answers").append(make("li", "No answer was found in these notes."));
  } catch (error) {
    $("answers").replaceChildren(make("li", error.message));
  }
}

async function open(files) {
  for (const file of files) {
    const empty = [...document.querySelectorAll("#notes textarea")].find((area) => !area.value);
    (empty ?? addNote()).value = await file.text();
  }
  say(`${plural(files.length, "file")} opened.`);
}

async function showCard(card) {
  // In a header: a proxy writes addresses into its log, and the key opens the notes.
  const answer = await fetch("/evidence", { headers: { "x-card-key": card } });
  const body = await answer.json();
  if (!answer.ok) {
    say(body.error, true);
    return;
  }
  notes = body.records.map((record) => record.text);
  $("form").hidden = true;
  show(body.risk, body.passages, []);
}

function fillIn() {
  clear();
  $("notes").replaceChildren();
  for (const text of EXAMPLE) addNote(text);
  say("An example is filled in: a made-up stay.");
  $("read").focus();
}

function clear() {
  notes = [];
  $("notes").replaceChildren();
  addNote().focus();
  $("result").hidden = true;
  $("question").value = "";
  say("");
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  read();
});
$("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) read();
});
$("add").addEventListener("click", () => addNote().focus());
$("clear").addEventListener("click", clear);
$("example").addEventListener("click", fillIn);
$("files").addEventListener("change", (event) => open([...event.target.files]));
$("question-form").addEventListener("submit", ask);
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    document.body.classList.toggle("over", kind === "dragover");
    if (kind === "drop") open([...event.dataTransfer.files]);
  });
}
addNote();
fetch("/v1")
  .then(async (answer) => {
    const body = await answer.json();
    if (!answer.ok) throw new Error("This service answers clients with a token only.");
    tasks = body.tasks;
  })
  .catch((error) => say(error.message, true));
const card = new URLSearchParams(location.hash.slice(1)).get("card");
if (card) showCard(card);
