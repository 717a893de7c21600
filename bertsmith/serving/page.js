"use strict";

// Texts of users and of models are set as text, never as HTML.

const CHINESE = {
  "Key of this server": "服务器的密钥",
  "Use this key": "使用这个密钥",
  "This is not the key of this server.": "密钥不对。",
  "Model": "模型",
  "Send": "发送",
  "Copy": "复制",
  "Copied": "已复制",
  "The same from a program": "在程序中发送同样的请求",
  "All routes": "全部接口",
  "Text": "文本",
  "Second text": "第二段文本",
  "Second text (may be empty)": "第二段文本（可以不填）",
  "Question": "问题",
  "Passage": "文章",
  "Choices, one on each line": "选项，每行一个",
  "Texts to compare it with, one on each line (may be empty)": "要比较的文本，每行一个（可以不填）",
  "Prompt": "提示",
  "none": "无",
  "Insert {token}": "插入 {token}",
  "Enter sends, Shift+Enter begins a new line.": "按 Enter 发送，按 Shift+Enter 换行。",
  "In a list, Enter begins a new line and Ctrl+Enter sends.": "在列表中按 Enter 换行，按 Ctrl+Enter 发送。",
  "The text needs {token} where a word is hidden.": "在要填的位置写上 {token}。",
  "Classes of texts": "文本分类",
  "Numbers for texts": "为文本打分",
  "Labels of words": "序列标注",
  "Answers in passages": "在文章中找答案",
  "Hidden words": "填空",
  "Choices": "选择",
  "Vectors of texts": "文本向量",
  "{task} · {type} · {precision} on {device} · at most {count} tokens": "{task} · {type} · {precision}，{device} · 最多 {count} 个词元",
  "All {count}": "全部 {count} 个",
  "Hidden word {number}": "第 {number} 个空",
  "The model labels nothing in this text.": "模型在这段文本中没有标出任何内容。",
  "The model finds no answer to this question in the passage.": "模型认为文章中没有这个问题的答案。",
  "Similarity": "相似度",
  "Vector": "向量",
  "{count} numbers; the first are {numbers} …": "{count} 个数，前几个是 {numbers} …",
  "Tokens of the text": "文本的词元",
  "and {count} more": "还有 {count} 个",
  "The model read {tokens} tokens. The server took {server} ms, and {all} ms passed until the answer was here.": "模型读了 {tokens} 个词元。服务器用时 {server} 毫秒，从发送到收到结果共 {all} 毫秒。",
  "The server does not answer. Perhaps it was stopped.": "服务器没有响应，可能已经停止。",
};
const isChinese = navigator.language.toLowerCase().startsWith("zh");
const SPACE = "\u00a0";
const MAX_BARS = 10; // bars that are shown before "All …" is opened
const MAX_TOKENS = 300; // tokens of a text that are shown
const FIRST_NUMBERS = 8; // numbers of a vector that are shown

function translate(text, values = {}) {
  const sentence = (isChinese && CHINESE[text]) || text;
  return sentence.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

const byId = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// ---- For each head: its fields, its request, and the display of its answer ----------------------

// A view has: `fields`, the inputs of the form; `request`, which returns [route, body] for the values
// of the inputs; and `show`, which returns the elements that display the answer. `info` is the answer
// of /info, which describes the model.

const text = (name, label, more = {}) => ({ name, label: translate(label), rows: 2, ...more });
const lines = (name, label) => ({ name, label: translate(label), rows: 3, isList: true });
const SECOND_TEXT = { true: "Second text", null: "Second text (may be empty)" }; // by `reads_pairs`; null if not known

const textOrPair = {
  fields: (info) => [
    text("text", "Text"),
    ...(info.reads_pairs === false ? [] : [text("pair", SECOND_TEXT[info.reads_pairs])]),
  ],
  request: (values) => ["predict", { inputs: values.pair ? [values.text, values.pair] : values.text }],
};

const VIEWS = {
  classes: {
    title: "Classes of texts",
    ...textOrPair,
    show: (answer, values, info) => [
      bars(answer.map((row) => [row.label, row.score, percent(row.score), info.labels.indexOf(row.label)])),
    ],
  },
  number: {
    title: "Numbers for texts",
    ...textOrPair,
    show: ([{ score }]) => [make("p", { className: "headline" }, String(Number(score.toPrecision(4))))],
  },
  "token-classification": {
    title: "Labels of words",
    fields: () => [text("text", "Text", { rows: 3 })],
    request: (values) => ["", { inputs: values.text }],
    show: (spans, values, info) => {
      if (!spans.length) return [make("p", {}, translate("The model labels nothing in this text."))];
      const kinds = [...new Set(info.labels.map((label) => label.replace(/^[A-Z]-/, "")))].filter((label) => label !== "O");
      const colors = spans.map((span) => kinds.indexOf(span.entity_group));
      return [
        highlight(values.text, spans.map((span, index) => ({ ...span, label: span.entity_group, color: colors[index] }))),
        bars(spans.map((span, index) => [`${span.word} (${span.entity_group})`, span.score, percent(span.score), colors[index]]), "bars"),
      ];
    },
  },
  "question-answering": {
    title: "Answers in passages",
    fields: () => [text("question", "Question"), text("context", "Passage", { rows: 6 })],
    request: (values) => ["", { inputs: { question: values.question, context: values.context }, parameters: { top_k: 3 } }],
    show: (answers, values) => {
      const [best] = answers;
      const rows = answers.filter((row) => row.answer).map((row) => [row.answer, row.score, percent(row.score), 0]);
      if (!best.answer) return [make("p", { className: "headline" }, translate("The model finds no answer to this question in the passage.")), bars(rows)];
      return [
        make("p", { className: "headline", dir: "auto" }, best.answer),
        highlight(values.context, [{ ...best, color: 0 }]),
        bars(rows),
      ];
    },
  },
  "fill-mask": {
    title: "Hidden words",
    fields: () => [text("text", "Text")],
    request: (values) => ["", { inputs: values.text }],
    show: (answer) => {
      const masks = Array.isArray(answer[0]) ? answer : [answer];
      return masks.flatMap((words, index) => [
        ...(masks.length > 1 ? [make("h3", {}, translate("Hidden word {number}", { number: index + 1 }))] : []),
        bars(words.map((word) => [word.token_str, word.score, percent(word.score), 0])),
      ]);
    },
  },
  "multiple-choice": {
    title: "Choices",
    fields: () => [text("text", "Text"), lines("choices", "Choices, one on each line")],
    request: (values) => ["", { inputs: { text: values.text, choices: values.choices } }],
    show: (answer) => [bars(answer.map((row) => [row.choice, row.score, percent(row.score), row.index]))],
  },
  "feature-extraction": {
    title: "Vectors of texts",
    fields: (info) => [
      text("text", "Text"),
      lines("others", "Texts to compare it with, one on each line (may be empty)"),
      ...(Object.keys(info.prompts).length ? [{ name: "prompt", label: translate("Prompt"), options: ["", ...Object.keys(info.prompts)] }] : []),
    ],
    request: (values) => {
      const prompt = values.prompt ? { prompt_name: values.prompt } : {};
      if (!values.others.length) return ["embed", { inputs: values.text, ...prompt }];
      const inputs = { source_sentence: values.text, sentences: values.others };
      return ["similarity", values.prompt ? { inputs, parameters: prompt } : { inputs }];
    },
    show: (answer, values) => {
      if (values.others.length) {
        const rows = values.others.map((other, index) => [other, answer[index], answer[index].toFixed(3), 0]);
        return [make("h3", {}, translate("Similarity")), bars(rows.sort((one, other) => other[1] - one[1]))];
      }
      const numbers = answer[0].slice(0, FIRST_NUMBERS).map((number) => number.toFixed(4)).join(", ");
      return [make("h3", {}, translate("Vector")), make("p", {}, translate("{count} numbers; the first are {numbers} …", { count: answer[0].length, numbers }))];
    },
  },
};

const view = () => VIEWS[info.task === "text-classification" ? (info.is_regression ? "number" : "classes") : info.task];

function percent(share) {
  return `${(100 * share).toFixed(1)}${SPACE}%`;
}

// Each row is [name, length of the bar from 0 to 1, text beside the bar, index of the color].
function bars(rows, className = "bars best-first") {
  const table = (some) => make("table", { className }, make("tbody", {}, ...some.map(bar)));
  if (rows.length <= MAX_BARS) return table(rows);
  const rest = make("details", {}, make("summary", {}, translate("All {count}", { count: rows.length })), table(rows));
  return make("div", {}, table(rows.slice(0, MAX_BARS)), rest);
}

function bar([name, length, shown, color]) {
  const filled = make("i", { className: "bar" });
  filled.style.width = `${100 * Math.min(1, Math.max(0, length))}%`;
  return make(
    "tr", {},
    make("th", { scope: "row", dir: "auto" }, name),
    make("td", { className: "number" }, shown),
    make("td", { className: "drawn" }, make("span", { className: `track c${Math.max(0, color) % 8}`, ariaHidden: "true" }, filled)),
  );
}

// Spans count characters, as the server does. Strings of JavaScript count UTF-16 units: an emoji is two.
function highlight(passage, spans) {
  const characters = Array.from(passage);
  const nodes = [];
  let last = 0;
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    if (span.start < last) continue;
    const label = span.label ? [make("small", { dir: "auto" }, span.label)] : [];
    nodes.push(
      characters.slice(last, span.start).join(""),
      make("mark", { className: `c${Math.max(0, span.color) % 8}` }, characters.slice(span.start, span.end).join(""), ...label),
    );
    last = span.end;
  }
  return make("p", { className: "passage", dir: "auto" }, ...nodes, characters.slice(last).join(""));
}

// ---- The server ---------------------------------------------------------------------------------

const BASE = location.pathname.replace(/(models\/[^/]*)?$/, ""); // the server may be below a path
let names = [];
let info = null;
let key = "";
let pending = null; // the request whose answer is awaited

class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const modelPath = () => (names.length > 1 ? `models/${encodeURIComponent(info.served_model_name)}` : "");

function pathOf(route) {
  return BASE + [modelPath(), route].filter(Boolean).join("/");
}

async function fetchJson(path, body, signal) {
  // fetch takes only Latin-1 in headers, so each byte of the key in UTF-8 becomes one character.
  const headers = key ? { Authorization: `Bearer ${String.fromCharCode(...new TextEncoder().encode(key))}` } : {};
  const sent = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { ...sent, headers, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(translate("The server does not answer. Perhaps it was stopped."), 0);
  }
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new ServerError(content.error || `HTTP ${response.status}`, response.status);
  return [content, response.headers];
}

// ---- The page -----------------------------------------------------------------------------------

function showProblem(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) {
    byId("form").hidden = true;
    byId("key-problem").textContent = key ? translate("This is not the key of this server.") : "";
    byId("key-form").hidden = false;
    byId("key").focus();
    return;
  }
  byId("answer").hidden = byId("more").hidden = true;
  byId("problem").textContent = error.message;
  byId("problem").hidden = false;
}

function hideAnswer() {
  for (const id of ["problem", "answer", "more"]) byId(id).hidden = true;
}

function dropRequest() {
  pending?.abort();
  hideAnswer();
}

async function loadModels() {
  try {
    names = (await fetchJson(`${BASE}models`))[0].data.map((model) => model.id);
    byId("key-form").hidden = true;
    byId("model").replaceChildren(...names.map((name) => make("option", { value: name }, name)));
    byId("choice").hidden = names.length < 2;
    const named = location.pathname.slice(BASE.length).match(/^models\/(.+)$/);
    await selectModel(named ? decodeURIComponent(named[1]) : names[0]);
  } catch (error) {
    showProblem(error);
  }
}

async function selectModel(name) {
  dropRequest();
  byId("model").value = name;
  const [answer] = await fetchJson(`${BASE}models/${encodeURIComponent(name)}/info`);
  if (byId("model").value !== name) return; // another model was chosen meanwhile
  dropRequest(); // also one that was sent meanwhile, to the earlier model
  info = answer;
  byId("name").textContent = document.title = name;
  byId("about").textContent = translate("{task} · {type} · {precision} on {device} · at most {count} tokens", {
    task: translate(view().title), type: info.architecture, precision: info.precision,
    device: info.device, count: info.max_input_length.toLocaleString("en"),
  });
  const fields = view().fields(info);
  byId("fields").replaceChildren(...fields.map(makeField));
  const token = info.mask_token;
  const isFilling = info.task === "fill-mask";
  byId("insert-mask").hidden = !isFilling;
  byId("insert-mask").textContent = translate("Insert {token}", { token });
  const hints = ["Enter sends, Shift+Enter begins a new line."];
  if (fields.some((field) => field.isList)) hints.push("In a list, Enter begins a new line and Ctrl+Enter sends.");
  if (isFilling) hints.push("The text needs {token} where a word is hidden.");
  byId("hint").textContent = hints.map((hint) => translate(hint, { token })).join(isChinese ? "" : " ");
  byId("form").hidden = false;
  byId("fields").querySelector("textarea").focus();
}

function makeField(field) {
  const id = `field-${field.name}`;
  const label = make("label", { htmlFor: id }, field.label);
  if (field.options) {
    const options = field.options.map((name) => make("option", { value: name }, name || translate("none")));
    return make("p", {}, label, make("select", { id, name: field.name }, ...options));
  }
  const area = make("textarea", { id, name: field.name, rows: field.rows, dir: "auto", spellcheck: false });
  area.dataset.isList = field.isList ? "yes" : "";
  area.addEventListener("keydown", (event) => {
    // While Chinese is typed, Enter takes the characters that the input method offers; some browsers
    // tell this only by the code 229.
    if (event.key !== "Enter" || event.isComposing || event.keyCode === 229) return;
    const sends = event.ctrlKey || event.metaKey || !(field.isList || event.shiftKey);
    if (!sends) return;
    event.preventDefault();
    byId("form").requestSubmit();
  });
  return make("p", {}, label, area);
}

function readFields() {
  return Object.fromEntries(
    [...byId("fields").querySelectorAll("[name]")].map((field) => [
      field.name,
      field.dataset.isList ? field.value.split("\n").map((line) => line.trim()).filter(Boolean) : field.value,
    ]),
  );
}

async function send() {
  pending?.abort();
  pending = new AbortController();
  const { signal } = pending;
  const values = readFields();
  const [route, body] = view().request(values);
  byId("form").ariaBusy = "true";
  try {
    const startedAt = performance.now();
    const [answer, headers] = await fetchJson(pathOf(route), body, signal);
    const elapsed = performance.now() - startedAt;
    byId("problem").hidden = true;
    byId("answer").replaceChildren(...view().show(answer, values, info));
    byId("figures").textContent = translate(
      "The model read {tokens} tokens. The server took {server} ms, and {all} ms passed until the answer was here.",
      { tokens: headers.get("x-compute-tokens"), server: headers.get("x-total-time"), all: elapsed.toFixed(0) },
    );
    byId("curl").textContent = curlLine(route, body);
    byId("answer").hidden = byId("more").hidden = false;
    await showTokens(values, signal);
  } catch (error) {
    showProblem(error);
  } finally {
    if (pending.signal === signal) byId("form").ariaBusy = "false";
  }
}

async function showTokens(values, signal) {
  const { prompt, ...texts } = values;
  const inputs = Object.values(texts).flat().filter(Boolean);
  // Special tokens would stand around each of several texts, where the model reads them elsewhere.
  const sent = { inputs, add_special_tokens: inputs.length === 1 };
  if (prompt) sent.prompt_name = prompt;
  const [rows] = await fetchJson(pathOf("tokenize"), sent, signal);
  byId("token-title").textContent = translate("Tokens of the text");
  byId("tokens").replaceChildren(...rows.map(tokenRow));
}

function tokenRow(tokens) {
  const shown = tokens.slice(0, MAX_TOKENS).flatMap((token) => [
    make("code", { className: token.special ? "special" : "", title: String(token.id) }, token.text), " ",
  ]);
  const rest = tokens.length - MAX_TOKENS;
  const end = rest > 0 ? [translate("and {count} more", { count: rest })] : [];
  return make("p", { className: "pieces", dir: "auto" }, ...shown, ...end);
}

function curlLine(route, body) {
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  const header = key ? ' -H "Authorization: Bearer $KEY"' : "";
  return `curl ${location.origin}${pathOf(route)}${header} -d '${quoted}'`;
}

function copyCurl() {
  const range = document.createRange();
  range.selectNodeContents(byId("curl"));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  document.execCommand("copy"); // unlike navigator.clipboard, also without https
  byId("copy").textContent = translate("Copied");
  setTimeout(() => { byId("copy").textContent = translate("Copy"); }, 2000);
}

function insertMask() {
  const area = byId("field-text");
  area.setRangeText(info.mask_token, area.selectionStart, area.selectionEnd, "end");
  area.focus();
}

function translatePage() {
  if (isChinese) document.documentElement.lang = "zh";
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = translate(element.textContent);
}

translatePage();
byId("docs").href = `${BASE}docs`;
byId("openapi").href = `${BASE}openapi.json`;
byId("form").addEventListener("submit", (event) => { event.preventDefault(); send(); });
byId("key-form").addEventListener("submit", (event) => { event.preventDefault(); key = byId("key").value; loadModels(); });
byId("model").addEventListener("change", () => {
  history.replaceState(null, "", `${BASE}models/${encodeURIComponent(byId("model").value)}`);
  selectModel(byId("model").value).catch(showProblem);
});
byId("copy").addEventListener("click", copyCurl);
byId("insert-mask").addEventListener("click", insertMask);
loadModels();
