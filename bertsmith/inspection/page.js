"use strict";

// Draws the data of the page. Texts of users and of models are set as text, never as HTML.

const CHINESE = {
  "Inside the model": "模型内部",
  "{folder} is a model of the family {family}, with {layers} of {heads}. The text has {tokens}.": "{folder} 是一个 {family} 模型，共有 {layers} 层，每层 {heads} 个注意力头。文本有 {tokens} 个词元。",
  "{folder} is a model of the family {family}. Its source and target have {tokens}.": "{folder} 是一个 {family} 模型。源文本和目标文本共有 {tokens} 个词元。",
  "The page shows the first {count} tokens of {all}, and the prediction is that of these alone.": "文本共有 {all} 个词元，本页只显示前 {count} 个，预测也只根据这些词元。",
  "Words instead of tokens": "按词显示（合并词元）",
  "Training step": "训练步数",
  "end of the run": "训练结束",
  "step {step}": "第 {step} 步",
  "The run has {count} checkpoints; the page shows {shown} of them.": "训练共有 {count} 个检查点，本页显示其中 {shown} 个。",
  "Prediction": "预测",
  "The model": "模型",
  "Without head {heads}": "去掉注意力头 {heads}",
  "no answer": "没有答案",
  "replaced": "被替换",
  "The model labels nothing in this text.": "模型在这段文本中没有标出任何内容。",
  "Write {mask} in place of a word, and this page shows the words that the model puts there.": "把一个词写成 {mask}，本页就会显示模型填入的词。",
  "This model predicts nothing by itself: it gives vectors of texts.": "这个模型本身不做预测，只给出文本向量。",
  "The words that count": "起作用的词",
  "Decision": "决定",
  "A solid line means that a word speaks for the decision, a dashed line that it speaks against it; the thicker, the more.": "实线表示这个词支持该决定，虚线表示反对；线越粗，作用越大。",
  "Integrated gradients of its logit, compared with a text of {mask} alone.": "该决定的 logit 的积分梯度，对照是全部由 {mask} 组成的文本。",
  "Integrated gradients of its logit, compared with vectors of zero in place of the words.": "该决定的 logit 的积分梯度，对照是用零向量代替各个词。",
  "The logit is {logit}; with every word hidden it is {baseline}. The numbers of the words add up to the difference within {error}.": "logit 为 {logit}；隐藏所有词时为 {baseline}。各词的数值之和等于两者之差，误差不超过 {error}。",
  "Shares of its logit: the head adds numbers for each word that occurs and for the vector of each word, which depends on the other words, too.": "该决定的 logit 的组成：线性预测层把出现的每个词的数值和每个词的向量的数值相加；词向量也取决于其他词。",
  "The logit is {logit}; without a word it is {baseline}. The numbers of all tokens, special ones included, add up to the difference.": "logit 为 {logit}；没有词时为 {baseline}。所有词元（包括特殊词元）的数值之和等于两者之差。",
  "Only the first decisions are explained, so that the page is made quickly.": "为了较快生成页面，只解释前面的决定。",
  "This is the prediction at the end of the run.": "这里解释的是训练结束时的预测。",
  "Attention": "注意力",
  "Each small square is a head. A row is a token, and the cells that stand out are the tokens that it attends to. Choose a head; the arrow keys move to its neighbours.": "每个小方格是一个注意力头。每一行是一个词元，醒目的格子是它所关注的词元。请选择一个头；方向键可移到相邻的头。",
  "Who attends to what": "谁关注什么",
  "the text to itself": "文本关注自身",
  "the source to itself": "源文本关注自身",
  "the target to itself": "目标文本关注自身",
  "the target to the source": "目标文本关注源文本",
  "Heads of all layers": "各层的注意力头",
  "Layer {layer}, head {head}": "第 {layer} 层第 {head} 头",
  "Point at a cell, or use the arrow keys.": "请指向一个格子，或使用方向键。",
  "{from} attends to {to}: {share}": "{from} 关注 {to}：{share}",
  "Point at a word on the left to see what it attends to, or on the right to see what attends to it. The numbers are rounded for this page.": "指向左边的词，可看到它关注哪些词；指向右边的词，可看到哪些词关注它。数值为适应页面已取整。",
  "from": "从",
  "to": "到",
  "As a table": "表格",
  "Query and keys": "查询向量和键向量",
  "The query of a word is multiplied by the key of each word, number by number. The sum of the products is the score of that word, and the softmax of all scores is the attention. Bars go up for positive numbers, and down for negative ones.": "一个词的查询向量与每个词的键向量逐维相乘。乘积之和是该词的得分，所有得分经 softmax 后就是注意力。正数的条向上，负数的条向下。",
  "The query is shown as the head uses it: divided by the square root of its size.": "查询向量按注意力头实际使用的数值显示：已除以其维数的平方根。",
  "A T5 adds a number for the distance to each score of a text to itself.": "文本关注自身时，T5 会在每个得分上再加一个由距离决定的数。",
  "A word that the head cannot see has no attention, whatever its score.": "注意力头看不到的词，无论得分多少，注意力都为零。",
  "This is the model at the end of the run.": "这里显示的是训练结束时的模型。",
  "Queries and keys of the heads are left out, as they would make the page larger than 3 MB. A shorter text has them (--max-length).": "本页没有注意力头的查询向量和键向量，否则页面会超过 3 MB。较短的文本可以显示（--max-length）。",
  "Word that attends": "发出关注的词",
  "query": "查询",
  "key": "键",
  "products": "乘积",
  "score": "得分",
  "attention": "注意力",
  "Point at a bar, or use the arrow keys.": "请指向一个条，或使用方向键。",
  "Number {dimension}, {token}: {query} × {key} = {product}": "第 {dimension} 维，{token}：{query} × {key} = {product}",
  "token": "词元",
  "word": "词",
  "attends most to": "最关注的词元",
  "What each layer would predict": "每一层会预测什么",
  "The head of the model reads the vectors of every layer as if it were the last (logit lens). Layer 0 is the embedding.": "让模型的预测层读取每一层的向量，就像那是最后一层（logit lens）。第 0 层是嵌入。",
  "layer {layer}": "第 {layer} 层",
  "layer": "层",
  "prediction": "预测",
  "Where the heads look": "各个头关注哪里",
  "Over {texts} of {source}, {tokens}. Choose a column of the table to sort by it.": "依据 {source} 的 {texts} 个文本，共 {tokens} 个词元。点击表格的列名可排序。",
  "Over this text, {tokens}. A file of texts says more (--data). Choose a column of the table to sort by it.": "依据这段文本，共 {tokens} 个词元。给出文本文件（--data）会更说明问题。点击表格的列名可排序。",
  "Statistic": "统计量",
  "Each square is a head; the one that stands out most has {most}. Point at one, or use the arrow keys, to read its number.": "每个方格是一个注意力头，最醒目的为 {most}。指向方格或使用方向键可看到数值。",
  "head": "头",
  "entropy": "熵",
  "previous": "前一个",
  "next": "后一个",
  "first": "第一个",
  "separator": "分隔符",
  "distance": "距离",
  "Entropy is in bits: 3 bits are as wide as 8 tokens looked at alike. Previous, next, first and separator are the shares of attention that these tokens get. Distance is the mean number of tokens to what a head looks at.": "熵的单位是比特：3 比特相当于平均关注 8 个词元。前一个、后一个、第一个和分隔符是这些词元得到的注意力份额。距离是到所关注词元的平均词元数。",
  "Map of the texts": "文本地图",
  "Each mark is a text of {source}; texts whose vectors are similar are near each other (the two principal components, which hold {first} and {second} of the variance).": "每个标记是 {source} 中的一个文本，向量相近的文本靠在一起（前两个主成分，分别占方差的 {first} 和 {second}）。",
  "Colors and shapes are the labels that the model predicts.": "颜色和形状表示模型预测的标签。",
  "Colors and shapes are the labels of the file.": "颜色和形状表示文件中的标签。",
  "Point at a mark, or use the arrow keys, to read its text.": "指向一个标记或使用方向键可阅读其文本。",
  "text": "文本",
  "label": "标签",
};
// The data that `page_data` of page.py, or `look_at_system` of system_look.py, has written.
const data = JSON.parse(document.getElementById("data").textContent);
const isChinese = data.language === "zh";
const SPACE = "\u00a0";
const MAX_OPEN_HEADS = 24; // a longer table of statistics is closed at first
const MIN_LINE_WEIGHT = 0.02; // lines of less weight are not drawn

function translate(text, values = {}) {
  const sentence = (isChinese && CHINESE[text]) || text;
  return sentence.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

// A count with its noun, which Chinese sentences have already.
const written = (count) => count.toLocaleString("en");
const amount = (count, noun) => (isChinese ? written(count) : `${written(count)} ${noun}${count === 1 ? "" : "s"}`);

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element && name !== "style") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function makeSvg(tag, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Near 0 and near 100 %, a decimal is shown, and neither end is reached by rounding.
function percent(share) {
  if (share > 0 && share < 0.0005) return `<${SPACE}0.1${SPACE}%`;
  if (share < 1 && share >= 0.9995) return `>${SPACE}99.9${SPACE}%`;
  const isNearEnd = (share > 0 && share < 0.0995) || (share < 1 && share >= 0.9905);
  return `${(100 * share).toFixed(isNearEnd ? 1 : 0)}${SPACE}%`;
}
const number = (value) => String(Number(value.toPrecision(3)));
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }; // of rows and of columns
const clampIndex = (index, count) => Math.min(count - 1, Math.max(0, index));
const shownValue = (value) => (data.kind === "number" ? number(value) : percent(value));

// ---- Tokens and words ---------------------------------------------------------------------------

// What the page shows now. A frame is the model at one checkpoint, the last one the model itself; a
// block is attention of one kind, such as that of the target to the source.
const state = { frame: data.frames.length - 1, block: data.blocks.length - 1, layer: 0, head: 0, words: data.words, decision: 0, sort: null };
const block = () => data.blocks[state.block];
state.layer = block().layers - 1;
const characters = data.texts.map((text) => Array.from(text)); // offsets count characters, not halves of emoji
let numShown = 0;
// The sequences that a model reads: a text, or a source and a target. Each has its tokens, and its
// words, which are tokens of one word put together. Both have `indices`, those of the tokens in
// their sequence, and `first`, the number of tokens in the sequences before theirs. `part` is the
// index of their text in `data.texts`, -1 for special tokens; `start` and `end` are characters there.
const sides = data.sequences.map((sequence) => {
  const first = numShown;
  numShown += sequence.length;
  const tokens = sequence.map(([label, part, start, end, word], index) => ({ label, part, start, end, word, indices: [index], first }));
  const words = [];
  for (const token of tokens) {
    const last = words[words.length - 1];
    if (last && last.word === token.word && last.part === token.part) {
      last.indices.push(...token.indices);
      last.end = Math.max(last.end, token.end);
      last.start = Math.min(last.start, token.start);
    } else words.push({ ...token, indices: [...token.indices] });
  }
  for (const word of words) {
    if (word.indices.length > 1) word.label = characters[word.part].slice(word.start, word.end).join("").trim() || word.label;
  }
  return { tokens, words };
});
// Units are tokens or words, as the reader of the page has chosen.
const unitsOf = (side) => (state.words ? sides[side].words : sides[side].tokens);
const allUnits = () => sides.flatMap((_, side) => unitsOf(side));
const isLast = () => state.frame === data.frames.length - 1;

// ---- Attention weights --------------------------------------------------------------------------

const LEVEL = new Float32Array(128); // the weight that each character stands for, by its code
Array.from(data.alphabet).forEach((character, level) => {
  LEVEL[character.charCodeAt(0)] = (level / (data.alphabet.length - 1)) ** 2;
});

// Of words, attention to one is the sum over its tokens, attention from one the mean (Clark et al. 2019, section 4.1).
// The result has a row for each unit that attends, and a column for each that is attended to.
function weightsOf(layer, head) {
  const { heads, rows, columns } = block();
  const width = sides[columns].tokens.length;
  const text = data.frames[state.frame].weights[state.block];
  const first = (layer * heads + head) * sides[rows].tokens.length * width;
  const [from, to] = [unitsOf(rows), unitsOf(columns)];
  const weights = new Float32Array(from.length * to.length);
  from.forEach((attending, row) => {
    to.forEach((attended, column) => {
      let sum = 0;
      for (const i of attending.indices) for (const j of attended.indices) sum += LEVEL[text.charCodeAt(first + i * width + j)];
      weights[row * to.length + column] = sum / attending.indices.length;
    });
  });
  return weights;
}

// The red, green and blue of a color of the style sheet, each 0 to 255.
function colorOf(name) {
  const probe = make("i", { style: `color: var(${name})` });
  document.body.append(probe);
  const rgb = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  return rgb;
}

// Draws weights as pixels, one for each; the square root makes small weights visible.
function paint(canvas, weights, width, height) {
  const [ground, ink] = palette;
  Object.assign(canvas, { width, height });
  const image = canvas.getContext("2d").createImageData(width, height);
  weights.forEach((weight, index) => {
    const share = Math.sqrt(weight);
    for (let channel = 0; channel < 3; channel += 1) {
      image.data[4 * index + channel] = ground[channel] + share * (ink[channel] - ground[channel]);
    }
    image.data[4 * index + 3] = 255;
  });
  canvas.getContext("2d").putImageData(image, 0, 0);
}

let palette = []; // colors of the ground, of ink, of special tokens and of the chosen cell
const readPalette = () => { palette = [colorOf("--card"), colorOf("--text"), colorOf("--soft"), colorOf("--c1")]; };

// ---- Parts of the page --------------------------------------------------------------------------

const main = document.getElementById("main");
const redraws = []; // functions that draw again after a change

function section(title, ...children) {
  const heading = make("h2", {}, title);
  const element = make("section", {}, heading, ...children);
  main.append(element);
  return element;
}

function table(titles, rows, className = "small") {
  return make(
    "table", { className },
    make("thead", {}, make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title)))),
    make("tbody", {}, ...rows.map(([name, ...cells]) => make(
      "tr", {}, make("th", { scope: "row", dir: "auto" }, name),
      ...cells.map((cell) => make("td", { dir: "auto" }, cell)),
    ))),
  );
}

// A picture's numbers as a table, folded away, and filled when it is opened.
function foldedTable(fill) {
  const box = make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: translate("As a table") });
  const details = make("details", {}, make("summary", {}, translate("As a table")), box);
  const redraw = () => { if (details.open) box.replaceChildren(fill()); };
  details.addEventListener("toggle", redraw);
  redraws.push(redraw);
  return details;
}

// A text with its units in elements that `decorate` makes; spaces between them stay.
function passage(part, all, decorate) {
  const text = characters[part];
  const nodes = [];
  let reached = 0;
  all.forEach((unit, index) => {
    if (unit.part !== part || unit.start < reached || unit.end <= unit.start) return;
    nodes.push(text.slice(reached, unit.start).join(""), decorate(unit, index, text.slice(unit.start, unit.end).join("")));
    reached = unit.end;
  });
  return make("p", { className: "passage", dir: "auto" }, ...nodes, text.slice(reached).join(""));
}

// ---- The header ---------------------------------------------------------------------------------

function showHeader() {
  document.documentElement.lang = data.language;
  const amounts = { layers: amount(data.layers, "layer"), heads: amount(data.heads, "head"), tokens: amount(data.numAll, "token") };
  const values = { ...data, ...amounts, family: data.familyName };
  const about = sides.length > 1
    ? translate("{folder} is a model of the family {family}. Its source and target have {tokens}.", values)
    : translate("{folder} is a model of the family {family}, with {layers} of {heads}. The text has {tokens}.", values);
  main.append(make("h1", {}, translate("Inside the model")), make("p", { className: "soft" }, about));
  if (data.numAll > numShown) {
    main.append(make("p", { className: "wrong", id: "cut" }, translate("The page shows the first {count} tokens of {all}, and the prediction is that of these alone.", { count: written(numShown), all: written(data.numAll) })));
  }
  const merge = make("input", { type: "checkbox", id: "words", checked: state.words });
  merge.addEventListener("change", () => { state.words = merge.checked; redraw(); });
  const controls = make("div", { className: "controls" }, make("label", {}, merge, translate("Words instead of tokens")));
  if (data.frames.length > 1) {
    const name = () => (isLast() ? translate("end of the run") : translate("step {step}", data.frames[state.frame]));
    const slider = make("input", { type: "range", id: "step", min: 0, max: data.frames.length - 1, value: state.frame });
    slider.value = state.frame;
    const output = make("output", { htmlFor: "step" }, name());
    slider.addEventListener("input", () => {
      state.frame = Number(slider.value);
      output.textContent = name();
      slider.setAttribute("aria-valuetext", name());
      redraw();
    });
    slider.setAttribute("aria-valuetext", name());
    controls.append(make("label", {}, translate("Training step"), slider, output));
  }
  main.append(controls);
  if (data.numSteps > data.frames.length - 1) {
    main.append(make("p", { className: "soft small" }, translate("The run has {count} checkpoints; the page shows {shown} of them.", { count: data.numSteps, shown: data.frames.length - 1 })));
  }
}

// ---- Prediction and saliency --------------------------------------------------------------------

// The place of a decision, by which words for one mask belong together: its text, and the first and last character there.
const placeOf = (decision) => decision.span.join(" ");
const masks = [...new Set(data.frames.flatMap((frame) => frame.decisions).filter((decision) => decision.span).map(placeOf))];

const nameOf = (decision) => {
  const label = ["no answer", "replaced"].includes(decision.label) ? translate(decision.label) : decision.label;
  if (data.kind === "answers") return decision.text || label;
  if (data.kind === "number") return translate("Prediction");
  if (data.kind === "masks") return masks.length > 1 ? `${data.mask} ${masks.indexOf(placeOf(decision)) + 1}: ${label}` : label;
  return decision.text ? `${decision.text} (${label})` : label;
};

function bars(decisions, caption) {
  const largest = Math.max(...decisions.map((decision) => Math.abs(decision.value)), data.kind === "number" ? 1e-9 : 1);
  const rows = decisions.map((decision) => {
    const filled = make("i", { className: "bar", style: `width: ${(100 * Math.abs(decision.value)) / largest}%` });
    return make(
      "tr", {},
      make("th", { scope: "row", dir: "auto" }, nameOf(decision)),
      make("td", { className: "number" }, shownValue(decision.value)),
      make("td", { className: "drawn" }, make("span", { className: `track c${decision.color % 8}`, ariaHidden: "true" }, filled)),
    );
  });
  const element = make("table", { className: "bars" }, make("caption", {}, caption), make("tbody", {}, ...rows));
  return rows.length > 12 ? make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: caption }, element) : element;
}

// The text with what the model decided marked in it.
function highlightDecisions(decisions) {
  const isTop = data.kind === "answers";
  const spans = (isTop ? decisions.slice(0, 1) : decisions).filter((decision) => decision.span && data.kind !== "masks");
  return data.texts.flatMap((_, part) => {
    const text = characters[part];
    const nodes = [];
    let reached = 0;
    for (const { span: [, start, end], label, color } of spans.filter((decision) => decision.span[0] === part).sort((a, b) => a.span[1] - b.span[1])) {
      if (start < reached) continue;
      const name = isTop ? [] : [make("small", { dir: "auto" }, label === "replaced" ? translate(label) : label)];
      nodes.push(text.slice(reached, start).join(""), make("mark", { className: `c${color % 8}` }, text.slice(start, end).join(""), ...name));
      reached = end;
    }
    return nodes.length ? [make("p", { className: "passage", dir: "auto" }, ...nodes, text.slice(reached).join(""))] : [];
  });
}

function showPrediction() {
  const charts = make("div", { className: "columns" });
  const text = make("div");
  const box = section(translate("Prediction"), text, charts);
  box.id = "prediction";
  redraws.push(() => {
    const { decisions } = data.frames[state.frame];
    text.replaceChildren(...highlightDecisions(decisions));
    if (!decisions.length) {
      let notice = "This model predicts nothing by itself: it gives vectors of texts.";
      if (data.kind === "masks") notice = "Write {mask} in place of a word, and this page shows the words that the model puts there.";
      else if (data.kind !== "none") notice = "The model labels nothing in this text.";
      charts.replaceChildren(make("p", {}, translate(notice, data)));
    } else charts.replaceChildren(bars(decisions, translate("The model")));
    if (data.without && isLast()) {
      const caption = translate("Without head {heads}", { heads: data.without.heads.join(", ") });
      const other = data.without.decisions;
      charts.append(make("div", { id: "without" }, other.length ? bars(other, caption) : make("p", {}, `${caption}: ${translate("The model labels nothing in this text.")}`)));
    }
  });
}

const format = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + number(Math.abs(value));

function methodText() {
  if (data.isLinear) return "Shares of its logit: the head adds numbers for each word that occurs and for the vector of each word, which depends on the other words, too.";
  return data.mask ? "Integrated gradients of its logit, compared with a text of {mask} alone." : "Integrated gradients of its logit, compared with vectors of zero in place of the words.";
}

function showSaliency() {
  const { decisions } = data.frames[data.frames.length - 1];
  const explained = data.saliency.map((attribution, index) => [attribution, index]).filter(([attribution]) => attribution);
  if (!explained.length) return;
  state.decision = explained[0][1];
  const select = make("select", { id: "decision" }, ...explained.map(([, index]) => make("option", { value: index }, `${nameOf(decisions[index])}: ${shownValue(decisions[index].value)}`)));
  select.addEventListener("change", () => { state.decision = Number(select.value); redraw(); });
  const texts = make("div");
  const sum = make("p", { className: "soft small" });
  const values = () => allUnits().map((unit) => unit.indices.reduce((total, index) => total + data.saliency[state.decision].values[unit.first + index], 0));
  const rows = () => allUnits().map((unit, index) => [unit, values()[index]]).filter(([unit]) => unit.part >= 0);
  const box = section(
    translate("The words that count"),
    make("div", { className: "controls" }, make("label", {}, translate("Decision"), select)),
    make("p", { className: "small" }, translate("A solid line means that a word speaks for the decision, a dashed line that it speaks against it; the thicker, the more.")),
    make("p", { className: "small soft" }, translate(methodText(), data)),
    texts, sum,
    ...(decisions.length > explained.length && data.kind !== "choices" ? [make("p", { className: "soft small" }, translate("Only the first decisions are explained, so that the page is made quickly."))] : []),
    ...(data.frames.length > 1 ? [make("p", { className: "soft small" }, translate("This is the prediction at the end of the run."))] : []),
    foldedTable(() => table([translate(state.words ? "word" : "token"), "logit"], rows().map(([unit, value]) => [unit.label, format(value)]))),
  );
  box.id = "saliency";
  redraws.push(() => {
    const each = values();
    const largest = Math.max(...each.map(Math.abs), 1e-12);
    texts.replaceChildren(...data.texts.map((_, part) => passage(part, allUnits(), (unit, index, text) => {
      const value = each[index];
      const sign = value > 0 ? "more" : value < 0 ? "less" : "none";
      return make("span", { className: `unit ${sign}`, title: format(value), style: `--strength: ${Math.abs(value) / largest}` }, text);
    })));
    const { logit, baseline, error } = data.saliency[state.decision];
    sum.textContent = translate(data.isLinear ? "The logit is {logit}; without a word it is {baseline}. The numbers of all tokens, special ones included, add up to the difference." : "The logit is {logit}; with every word hidden it is {baseline}. The numbers of the words add up to the difference within {error}.", { logit: number(logit), baseline: number(baseline), error: percent(Math.max(error, 0.001)) });
  });
}

// ---- Attention ----------------------------------------------------------------------------------

function showAttention() {
  const grid = make("div", { className: "grid-of-heads", role: "radiogroup", ariaLabel: translate("Heads of all layers") });
  let buttons = [];
  function fillGrid() {
    const { layers, heads } = block();
    buttons = [];
    grid.setAttribute("style", `--heads: ${heads}`);
    grid.replaceChildren(make("span", { ariaHidden: "true" }, ""), ...Array.from({ length: heads }, (_, head) => make("span", { ariaHidden: "true" }, head + 1)));
    for (let layer = 0; layer < layers; layer += 1) {
      grid.append(make("span", { ariaHidden: "true" }, layer + 1));
      for (let head = 0; head < heads; head += 1) {
        const button = make("button", { type: "button", role: "radio", ariaLabel: translate("Layer {layer}, head {head}", { layer: layer + 1, head: head + 1 }) }, make("canvas", { ariaHidden: "true" }));
        button.addEventListener("click", () => selectHead(layer, head));
        buttons.push(button);
        grid.append(button);
      }
    }
  }
  fillGrid();
  const blockSelect = make("select", { id: "block" }, ...data.blocks.map(({ name }, index) => make("option", { value: index }, translate(name))));
  blockSelect.value = state.block;
  blockSelect.addEventListener("change", () => {
    state.block = Number(blockSelect.value);
    Object.assign(state, { layer: block().layers - 1, head: 0 });
    fillGrid();
    for (const each of onBlock) each();
    redraw();
  });
  const blockControls = data.blocks.length > 1 ? [make("div", { className: "controls" }, make("label", {}, translate("Who attends to what"), blockSelect))] : [];
  grid.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const layer = clampIndex(state.layer + step[0], block().layers);
    const head = clampIndex(state.head + step[1], block().heads);
    selectHead(layer, head);
    buttons[layer * block().heads + head].focus();
  });
  const title = make("h3", { id: "head-name", ariaLive: "polite" });
  const canvas = make("canvas", { id: "large", tabIndex: 0, role: "img" });
  const readout = make("p", { className: "readout", id: "cell", ariaLive: "polite" });
  const lines = make("div", { className: "lines", tabIndex: 0, role: "group" });
  const detail = make("div", {}, title, make("div", { className: "columns" },
    make("div", {}, make("div", { className: "wide" }, canvas), readout),
    make("div", {}, make("p", { className: "small" }, translate("Point at a word on the left to see what it attends to, or on the right to see what attends to it. The numbers are rounded for this page.")), lines)));
  const box = section(
    translate("Attention"),
    make("p", {}, translate("Each small square is a head. A row is a token, and the cells that stand out are the tokens that it attends to. Choose a head; the arrow keys move to its neighbours.")),
    ...blockControls, grid, detail,
  );
  box.id = "attention";
  let weights = null;
  const cell = { row: -1, column: -1 };

  function selectHead(layer, head) {
    Object.assign(state, { layer, head });
    markSelected();
    drawLarge();
    for (const each of onChoice) each();
  }

  function markSelected() {
    buttons.forEach((button, index) => {
      const isChosen = index === state.layer * block().heads + state.head;
      button.setAttribute("aria-checked", isChosen);
      button.tabIndex = isChosen ? 0 : -1;
    });
  }

  function drawLarge() {
    weights = weightsOf(state.layer, state.head);
    const name = translate("Layer {layer}, head {head}", { layer: state.layer + 1, head: state.head + 1 });
    title.textContent = name;
    canvas.ariaLabel = name;
    lines.ariaLabel = name;
    Object.assign(cell, { row: -1, column: -1 });
    readout.textContent = translate("Point at a cell, or use the arrow keys.");
    drawMatrix();
    drawLines();
  }

  let geometry = null;
  function drawMatrix() {
    const [from, to] = [unitsOf(block().rows), unitsOf(block().columns)];
    const [ground, ink, soft, accent] = palette.map((rgb) => `rgb(${rgb.slice(0, 3).join(",")})`);
    const room = canvas.parentElement.clientWidth || 320;
    const context = canvas.getContext("2d");
    context.font = "12px system-ui, sans-serif";
    const longest = Math.max(...[...from, ...to].map((unit) => context.measureText(unit.label).width));
    const side = Math.ceil(Math.min(longest, 90, room / 3)) + 8;
    const step = Math.max(5, Math.min(26, Math.floor((room - side) / to.length)));
    const [width, height] = [to, from].map((some) => side + step * some.length);
    const scale = window.devicePixelRatio || 1;
    Object.assign(canvas, { width: width * scale, height: height * scale });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    context.scale(scale, scale);
    geometry = { side, step, rows: from.length, columns: to.length };
    context.fillStyle = ground;
    context.fillRect(0, 0, width, height);
    const [low, high] = palette;
    for (let row = 0; row < from.length; row += 1) {
      for (let column = 0; column < to.length; column += 1) {
        const share = Math.sqrt(weights[row * to.length + column]);
        const rgb = [0, 1, 2].map((channel) => low[channel] + share * (high[channel] - low[channel]));
        context.fillStyle = `rgb(${rgb.join(",")})`;
        context.fillRect(side + column * step, side + row * step, step - (step > 8), step - (step > 8));
      }
    }
    context.fillStyle = ink;
    context.font = `${Math.min(12, step)}px system-ui, sans-serif`;
    context.textBaseline = "middle";
    if (step >= 9) {
      from.forEach((unit, index) => {
        context.fillStyle = unit.part < 0 ? soft : ink;
        context.textAlign = "right";
        context.fillText(clip(context, unit.label, side - 8), side - 4, side + (index + 0.5) * step);
      });
      to.forEach((unit, index) => {
        context.fillStyle = unit.part < 0 ? soft : ink;
        context.save();
        context.translate(side + (index + 0.5) * step, side - 4);
        context.rotate(-Math.PI / 2);
        context.textAlign = "left";
        context.fillText(clip(context, unit.label, side - 8), 0, 0);
        context.restore();
      });
    }
    if (cell.row >= 0) {
      context.strokeStyle = accent;
      context.lineWidth = 2;
      context.strokeRect(side + cell.column * step - 1, side + cell.row * step - 1, step + 1, step + 1);
    }
  }

  function clip(context, text, room) {
    if (context.measureText(text).width <= room) return text;
    const letters = Array.from(text);
    while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) letters.pop();
    return `${letters.join("")}…`;
  }

  function showCell(row, column) {
    const [from, to] = [unitsOf(block().rows), unitsOf(block().columns)];
    if (row === cell.row && column === cell.column) return;
    Object.assign(cell, { row, column });
    readout.textContent = translate("{from} attends to {to}: {share}", { from: quote(from[row].label), to: quote(to[column].label), share: percent(weights[row * to.length + column]) });
    drawMatrix();
  }

  function pointed(event) {
    const box = canvas.getBoundingClientRect();
    const [column, row] = [event.clientX - box.left, event.clientY - box.top].map((at) => Math.floor((at - geometry.side) / geometry.step));
    if (row >= 0 && column >= 0 && row < geometry.rows && column < geometry.columns) showCell(row, column);
  }
  canvas.addEventListener("pointermove", pointed);
  canvas.addEventListener("pointerdown", pointed);
  canvas.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    showCell(clampIndex(cell.row + step[0], geometry.rows), clampIndex(cell.column + step[1], geometry.columns));
  });

  function drawLines() {
    const [from, to] = [unitsOf(block().rows), unitsOf(block().columns)];
    const height = 26;
    const left = from.map((unit) => make("button", { type: "button", className: "from", dir: "auto" }, unit.label));
    const right = to.map((unit) => make("button", { type: "button", className: "to", dir: "auto" }, unit.label));
    const total = height * Math.max(from.length, to.length);
    const picture = makeSvg("svg", { viewBox: `0 0 100 ${total}`, preserveAspectRatio: "none", "aria-hidden": "true", style: `height: ${total}px` });
    // Shows the lines of one unit, on the side "from" or "to", or of all units if `side` is null.
    function show(side, index) {
      const paths = [];
      for (let row = 0; row < from.length; row += 1) {
        for (let column = 0; column < to.length; column += 1) {
          const weight = weights[row * to.length + column];
          const isShown = side === null || (side === "from" ? row === index : column === index);
          if (!isShown || weight < MIN_LINE_WEIGHT) continue;
          const [y, end] = [row, column].map((at) => (at + 0.5) * height);
          paths.push(makeSvg("path", { d: `M0 ${y} C 40 ${y} 60 ${end} 100 ${end}`, "stroke-width": 0.4 + 5 * weight, "stroke-opacity": 0.25 + 0.75 * weight, "vector-effect": "non-scaling-stroke" }));
        }
      }
      picture.replaceChildren(...paths);
      const [others, names] = side === "from" ? [right, to] : [left, from];
      [[left, from], [right, to]].forEach(([some, units]) => some.forEach((each, index) => {
        each.style.setProperty("--strength", 0);
        each.classList.remove("chosen");
        each.textContent = units[index].label;
      }));
      if (side === null) return;
      if (side === "from") showNeuronsOf(from[index].indices[0]);
      (side === "from" ? left : right)[index].classList.add("chosen");
      others.forEach((each, other) => {
        const weight = side === "from" ? weights[index * to.length + other] : weights[other * to.length + index];
        each.style.setProperty("--strength", weight);
        if (weight >= MIN_LINE_WEIGHT) each.textContent = `${names[other].label} ${percent(weight)}`;
      });
    }
    let held = null; // the unit that was clicked, as [side, index]: its lines stay until the next click
    [["from", left, from], ["to", right, to]].forEach(([side, buttonsOfSide, units]) => buttonsOfSide.forEach((button, index) => {
      button.setAttribute("aria-label", `${translate(side)} ${units[index].label}`);
      button.addEventListener("pointerenter", () => { if (!held) show(side, index); });
      button.addEventListener("focus", () => show(side, index));
      button.addEventListener("click", () => {
        const isHeld = held && held[0] === side && held[1] === index;
        held = isHeld ? null : [side, index];
        show(isHeld ? null : side, index);
      });
    }));
    lines.replaceChildren(make("div", {}, ...left), picture, make("div", {}, ...right));
    lines.onpointerleave = () => { if (!held) show(null, 0); };
    show(null, 0);
  }

  box.append(foldedTable(() => {
    const [from, to] = [unitsOf(block().rows), unitsOf(block().columns)];
    return table([translate(state.words ? "word" : "token"), translate("attends most to")], from.map((unit, row) => {
      const ranked = to.map((other, column) => [weights[row * to.length + column], other.label]).sort((a, b) => b[0] - a[0]);
      return [unit.label, ranked.slice(0, 3).map(([weight, label]) => `${label} ${percent(weight)}`).join(", ")];
    }));
  }));
  onChoice.push(redraws[redraws.length - 1]); // that of the folded table
  const neuronsBox = make("div");
  box.append(neuronsBox);
  const showNeuronsOf = showNeurons(neuronsBox);

  function redrawAll() {
    readPalette();
    const { heads, rows, columns } = block();
    buttons.forEach((button, index) => paint(button.firstChild, weightsOf(Math.floor(index / heads), index % heads), unitsOf(columns).length, unitsOf(rows).length));
    markSelected();
    drawLarge();
  }
  redraws.push(redrawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (width !== window.innerWidth) drawMatrix();
    width = window.innerWidth;
  });
}

const onChoice = []; // functions that draw again when another head is chosen
const onBlock = []; // functions that follow when other attention is chosen
const quote = (label) => `“${label}”`;

// ---- The lens -----------------------------------------------------------------------------------

// `lens` has for each layer, the embedding first, either in `decisions` a list of [label, value] about
// the text as a whole, or in `tokens` for each token of the last sequence a list of words or labels,
// [word, probability], or null.
function showLens() {
  const { lens } = data;
  if (!lens) return;
  const box = make("div", { className: "scroll lens", tabIndex: 0, role: "region", ariaLabel: translate("What each layer would predict") });
  section(
    translate("What each layer would predict"),
    make("p", {}, translate("The head of the model reads the vectors of every layer as if it were the last (logit lens). Layer 0 is the embedding.")), box,
  ).id = "lens";
  redraws.push(() => {
    if (lens.decisions) {
      const rows = lens.decisions.map((layer, index) => [translate("layer {layer}", { layer: index }), layer.map(([label, value]) => [label && (["no answer"].includes(label) ? translate(label) : label), data.kind === "choices" ? number(value) : shownValue(value)].filter(Boolean).join(": ")).join(" · ")]);
      box.replaceChildren(table([translate("layer"), translate("prediction")], rows));
      return;
    }
    const titles = [translate(state.words ? "word" : "token"), ...lens.tokens.map((_, layer) => translate("layer {layer}", { layer }))];
    const head = make("thead", {}, make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title))));
    const rows = unitsOf(sides.length - 1).map((unit) => make("tr", {}, make("th", { scope: "row", dir: "auto" }, unit.label), ...lens.tokens.map((layer) => {
      const guesses = unit.indices.map((index) => layer[index]).find(Boolean);
      if (!guesses) return make("td");
      const [word, share] = guesses[0];
      const title = guesses.map(([label, value]) => `${label} ${percent(value)}`).join(", ");
      return make("td", { className: "sure", dir: "auto", title, style: `--strength: ${share}` }, word ? `${word} ` : "", make("small", {}, percent(share)));
    })));
    box.replaceChildren(make("table", { className: "small" }, head, make("tbody", {}, ...rows)));
  });
}

// ---- Statistics ---------------------------------------------------------------------------------

function showStatistics() {
  if (!data.statistics) return;
  const { names, source, numTexts, numTokens, means } = data.statistics;
  const box = make("div", { className: "scroll statistics", tabIndex: 0, role: "region", ariaLabel: translate("Where the heads look") });
  const about = source
    ? translate("Over {texts} of {source}, {tokens}. Choose a column of the table to sort by it.", { texts: amount(numTexts, "text"), source, tokens: amount(numTokens, "token") })
    : translate("Over this text, {tokens}. A file of texts says more (--data). Choose a column of the table to sort by it.", { tokens: amount(numTokens, "token") });
  const isLong = means.length > MAX_OPEN_HEADS;
  const shown = (value, column) => (["entropy", "distance"].includes(names[column]) ? value.toFixed(2) : percent(value));
  const nameOfHead = (index) => translate("Layer {layer}, head {head}", { layer: Math.floor(index / data.heads) + 1, head: (index % data.heads) + 1 });
  const isChosen = (index) => index === state.layer * data.heads + state.head;
  const select = make("select", { id: "statistic" }, ...names.map((name, column) => make("option", { value: column }, translate(name))));
  select.value = names.indexOf("previous"); // the entropies of most heads are alike
  select.addEventListener("change", drawPicture);
  const grid = make("div", { className: "grid-of-heads shades", role: "img", tabIndex: 0, style: `--heads: ${data.heads}` });
  const legend = make("p", { className: "small" });
  const readout = make("p", { className: "readout", ariaLive: "polite" });
  section(
    translate("Where the heads look"),
    make("p", {}, about),
    make("p", { className: "small soft" }, translate("Entropy is in bits: 3 bits are as wide as 8 tokens looked at alike. Previous, next, first and separator are the shares of attention that these tokens get. Distance is the mean number of tokens to what a head looks at.")),
    make("div", { className: "controls" }, make("label", {}, translate("Statistic"), select)), legend, grid, readout,
    make("details", { open: !isLong }, make("summary", {}, translate("As a table")), box),
  ).id = "statistics";
  let squares = [];
  let pointedHead = -1;
  function drawPicture() {
    const column = Number(select.value);
    const most = Math.max(...means.map((each) => each[column]), 1e-9);
    const hidden = { ariaHidden: "true" };
    legend.textContent = translate("Each square is a head; the one that stands out most has {most}. Point at one, or use the arrow keys, to read its number.", { most: shown(most, column) });
    grid.ariaLabel = `${translate("Where the heads look")}: ${translate(names[column])}`;
    readout.textContent = SPACE;
    pointedHead = -1;
    squares = means.map((each, index) => {
      const square = make("i", { className: isChosen(index) ? "chosen" : "", style: `--strength: ${each[column] / most}` });
      square.addEventListener("pointerenter", () => point(index));
      square.addEventListener("pointerdown", () => point(index));
      return square;
    });
    const cells = squares.flatMap((square, index) => (index % data.heads ? [square] : [make("span", hidden, index / data.heads + 1), square]));
    grid.replaceChildren(make("span", hidden, ""), ...Array.from({ length: data.heads }, (_, head) => make("span", hidden, head + 1)), ...cells);
  }
  function point(index) {
    if (pointedHead >= 0) squares[pointedHead].classList.remove("pointed");
    pointedHead = index;
    squares[index].classList.add("pointed");
    const column = Number(select.value);
    readout.textContent = `${nameOfHead(index)}: ${shown(means[index][column], column)}`;
  }
  grid.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    if (pointedHead < 0) point(state.layer * data.heads + state.head);
    else point(clampIndex(Math.floor(pointedHead / data.heads) + step[0], data.layers) * data.heads + clampIndex((pointedHead % data.heads) + step[1], data.heads));
  });
  redraws.push(drawPicture);
  onChoice.push(drawPicture);
  function draw() {
    const order = means.map((_, index) => index);
    if (state.sort !== null) order.sort((a, b) => means[b][state.sort] - means[a][state.sort]);
    const titles = names.map((name, column) => {
      const button = make("button", { type: "button" }, translate(name));
      button.addEventListener("click", () => {
        state.sort = state.sort === column ? null : column;
        draw();
        box.querySelectorAll("th button")[column].focus();
      });
      return make("th", { scope: "col", className: "number", "aria-sort": state.sort === column ? "descending" : "none" }, button);
    });
    const rows = order.map((index) => {
      return make("tr", { className: isChosen(index) ? "chosen" : "" }, make("th", { scope: "row" }, nameOfHead(index)), ...means[index].map((value, column) => make("td", { className: "number" }, shown(value, column))));
    });
    box.replaceChildren(make("table", { className: "small" }, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, translate("head")), ...titles)), make("tbody", {}, ...rows)));
  }
  redraws.push(draw);
  onChoice.push(draw);
}

// ---- The map ------------------------------------------------------------------------------------

const SHAPES = [
  "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0", "M-5 -5h10v10h-10z", "M0 -6L6 5H-6z", "M0 -7L6 0L0 7L-6 0z",
  "M-2 -6h4v4h4v4h-4v4h-4v-4h-4v-4h4z", "M0 6L6 -5H-6z", "M-6 -3h12v6h-12z",
];
const COLORS = [0, 1, 3, 4, 5, 6, 7];

// The shape and the color of a label's marks. Each further seven labels pair them in another way.
const markOf = (label) => ({ d: SHAPES[(label + Math.floor(label / COLORS.length)) % SHAPES.length], class: `c${COLORS[label % COLORS.length]}` });

function showMap() {
  if (!data.map) return;
  const { points, explained, texts, names, labels } = data.map;
  const axes = [0, 1].map((axis) => points.map((point) => point[axis]));
  const [width, height, edge] = [640, 420, 16];
  const scaled = axes.map((values, axis) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const room = (axis ? height : width) - 2 * edge;
    return values.map((value) => edge + (high > low ? ((value - low) / (high - low)) * room : room / 2));
  });
  const readout = make("p", { className: "readout", ariaLive: "polite" }, translate("Point at a mark, or use the arrow keys, to read its text."));
  const titleOf = (index) => (labels.length ? `${names[labels[index]]}: ${texts[index]}` : texts[index]);
  const marks = points.map((_, index) => {
    const shape = makeSvg("path", { ...markOf(labels.length ? labels[index] : 0), transform: `translate(${scaled[0][index].toFixed(1)} ${(height - scaled[1][index]).toFixed(1)})` });
    shape.addEventListener("pointerenter", () => point(index));
    shape.addEventListener("pointerdown", () => point(index));
    return shape;
  });
  const picture = makeSvg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": translate("Map of the texts"), class: "map", tabindex: 0 }, ...marks);
  let pointed = -1;
  function point(index) {
    if (pointed >= 0) marks[pointed].classList.remove("pointed");
    pointed = index;
    marks[index].classList.add("pointed");
    readout.textContent = titleOf(index);
  }
  // The arrow keys lead to the next mark to the left or right, or up or down.
  const orders = scaled.map((values) => values.map((_, index) => index).sort((a, b) => values[a] - values[b] || a - b));
  picture.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    const [order, move] = step[1] ? [orders[0], step[1]] : [orders[1], -step[0]];
    point(pointed < 0 ? orders[0][0] : order[clampIndex(order.indexOf(pointed) + move, order.length)]);
  });
  const legend = make("ul", { className: "legend" }, ...names.map((name, index) => make("li", {}, makeSvg("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, makeSvg("path", markOf(index))), ` ${name}`)));
  const [first, second] = explained.map(percent);
  section(
    translate("Map of the texts"),
    make("p", {}, translate("Each mark is a text of {source}; texts whose vectors are similar are near each other (the two principal components, which hold {first} and {second} of the variance).", { source: data.statistics.source, first, second })),
    ...(names.length ? [make("p", {}, translate(data.map.arePredicted ? "Colors and shapes are the labels that the model predicts." : "Colors and shapes are the labels of the file.")), legend] : []),
    picture, readout,
    foldedTable(() => table([translate("text"), ...(names.length ? [translate("label")] : []), "x", "y"], points.map(([x, y], index) => [texts[index], ...(names.length ? [names[labels[index]]] : []), number(x), number(y)]))),
  ).id = "map";
}

function redraw() {
  for (const each of redraws) each();
}

readPalette();
showHeader();
showPrediction();
showSaliency();
showAttention();
showLens();
showStatistics();
showMap();
redraw();
