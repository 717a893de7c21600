"use strict";

// The neuron view: how a head's weights come from its queries and keys, number by number.
// page.js comes after this file on the page, and defines the data, `make`, `table` and so on.

const note = (text) => make("p", { className: "small soft" }, translate(text)); // a paragraph of remarks
const INDEX = new Uint8Array(128); // the index of each character of the alphabet, by its code

// The queries or keys of a head, [tokens * size], each spelled by two characters.
function vectorsOf(neurons, kind, head, numTokens) {
  const base = data.alphabet.length;
  const count = numTokens * neurons.size;
  const text = neurons[kind === "query" ? "queries" : "keys"];
  const scale = neurons[kind === "query" ? "queryScales" : "keyScales"][head];
  return Float64Array.from({ length: count }, (_, index) => {
    const at = 2 * (head * count + index);
    const level = INDEX[text.charCodeAt(at)] * base + INDEX[text.charCodeAt(at + 1)];
    return scale * ((2 * level) / (base * base - 1) - 1);
  });
}

// The path of bars, one for each number that `isShown`: up if it is positive, else down.
function barsOf(values, most, isShown) {
  return Array.from(values, (value, index) => (isShown(value) ? `M${index + 0.1} 0v${(-value / most).toFixed(3)}h.8V0z` : "")).join("");
}

function strip(values, most) {
  return make("div", { className: "strip", ariaHidden: "true" }, makeSvg(
    "svg", { viewBox: `0 -1 ${values.length} 2`, preserveAspectRatio: "none" },
    makeSvg("path", { class: "c0", d: barsOf(values, most, (value) => value > 0) }),
    makeSvg("path", { class: "c1", d: barsOf(values, most, (value) => value < 0) }),
    makeSvg("path", { class: "axis", d: `M0 0H${values.length}` }),
  ));
}

const largestOf = (values) => values.reduce((high, value) => Math.max(high, Math.abs(value)), 1e-9);

// Fills `box`, and returns a function that takes the index of a token and shows its query.
function showNeurons(box) {
  if (!data.neurons) {
    box.append(make("p", { className: "soft small", id: "neurons" }, translate("Queries and keys of the heads are left out, as they would make the page larger than 3 MB. A shorter text has them (--max-length).")));
    return () => {};
  }
  Array.from(data.alphabet).forEach((character, index) => { INDEX[character.charCodeAt(0)] = index; });
  const select = make("select", { id: "attending" });
  const grid = make("div", { className: "neurons", tabIndex: 0, role: "group" });
  const readout = make("p", { className: "readout", ariaLive: "polite" });
  let shown = null;
  const pointed = { token: 0, dimension: -1 };
  const details = foldedTable(fillTable);
  const redrawTable = redraws[redraws.length - 1]; // `foldedTable` has just added it
  box.append(make(
    "div", { id: "neurons" },
    make("h4", {}, translate("Query and keys")),
    make("p", { className: "small" }, translate("The query of a word is multiplied by the key of each word, number by number. The sum of the products is the score of that word, and the softmax of all scores is the attention. Bars go up for positive numbers, and down for negative ones.")),
    note(data.family === "t5" ? "A T5 adds a number for the distance to each score of a text to itself." : "The query is shown as the head uses it: divided by the square root of its size."),
    ...(data.hidesWords ? [note("A word that the head cannot see has no attention, whatever its score.")] : []),
    ...(data.frames.length > 1 ? [note("This is the model at the end of the run.")] : []),
    make("div", { className: "controls" }, make("label", {}, translate("Word that attends"), select)),
    readout, grid, details,
  ));

  function compute() {
    const { heads, rows, columns } = block();
    const neurons = data.neurons[state.block];
    const { size } = neurons;
    const head = state.layer * heads + state.head;
    const [from, to] = [sides[rows].tokens, sides[columns].tokens];
    const queries = vectorsOf(neurons, "query", head, from.length);
    const keys = vectorsOf(neurons, "key", head, to.length);
    const chosen = Number(select.value);
    const query = queries.slice(chosen * size, (chosen + 1) * size);
    const text = data.frames[data.frames.length - 1].weights[state.block];
    const first = (head * from.length + chosen) * to.length;
    const lines = to.map((token, index) => {
      const key = keys.slice(index * size, (index + 1) * size);
      const products = key.map((value, dimension) => value * query[dimension]);
      return { token, key, products, score: products.reduce((sum, value) => sum + value, 0), weight: LEVEL[text.charCodeAt(first + index)] };
    });
    return { token: from[chosen], query, lines, mostQuery: largestOf(queries), mostKey: largestOf(keys) };
  }

  function draw() {
    shown = compute();
    const { token, query, lines, mostQuery, mostKey } = shown;
    const mostProduct = Math.max(...lines.map((line) => largestOf(line.products)));
    const title = (text) => make("b", {}, text);
    grid.ariaLabel = `${translate("Query and keys")}: ${token.label}`;
    grid.replaceChildren(
      title(""), title(translate("query")), title(""), title(""), title(""),
      make("span", { dir: "auto", className: "name" }, token.label), strip(query, mostQuery), make("span"), make("span"), make("span"),
      title(""), title(translate("key")), title(translate("products")), title(translate("score")), title(translate("attention")),
      ...lines.flatMap((line) => [
        make("span", { dir: "auto", className: "name" }, line.token.label),
        strip(line.key, mostKey), strip(line.products, mostProduct),
        make("span", { className: "number" }, number(line.score)),
        make("span", { className: "number share", style: `--strength: ${line.weight}` }, percent(line.weight)),
      ]),
    );
    grid.querySelectorAll(".strip").forEach((each, index) => {
      // The first strip is the query; then each token has its key and its products.
      const pointAt = (event) => {
        const area = each.getBoundingClientRect();
        point(index ? Math.floor((index - 1) / 2) : pointed.token, Math.floor(((event.clientX - area.left) / area.width) * query.length));
      };
      each.addEventListener("pointermove", pointAt);
      each.addEventListener("pointerdown", pointAt);
    });
    Object.assign(pointed, { token: 0, dimension: -1 });
    grid.style.setProperty("--at", -1);
    readout.textContent = translate("Point at a bar, or use the arrow keys.");
    redrawTable();
  }

  function point(token, dimension) {
    const { query, lines } = shown;
    Object.assign(pointed, { token: clampIndex(token, lines.length), dimension: clampIndex(dimension, query.length) });
    const { key, products, token: other } = lines[pointed.token];
    grid.style.setProperty("--at", (pointed.dimension + 0.5) / query.length);
    grid.querySelectorAll(".name").forEach((each, index) => each.classList.toggle("chosen", index === pointed.token + 1));
    const numbers = [query, key, products].map((values) => format(values[pointed.dimension]));
    readout.textContent = translate("Number {dimension}, {token}: {query} × {key} = {product}", { dimension: pointed.dimension + 1, token: quote(other.label), query: numbers[0], key: numbers[1], product: numbers[2] });
  }

  grid.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    if (pointed.dimension < 0) point(0, 0);
    else point(pointed.token + step[0], pointed.dimension + step[1]);
    grid.querySelectorAll(".name")[pointed.token + 1].scrollIntoView({ block: "nearest" });
  });

  function fillTable() {
    const { token, query, lines } = shown;
    const titles = ["", translate("score"), translate("attention"), ...Array.from(query, (_, index) => index + 1)];
    const row = (name, values, ...first) => [name, ...first, ...Array.from(values, number)];
    return table(titles, [
      row(`${translate("query")}: ${token.label}`, query, "", ""),
      ...lines.map((line) => row(`${translate("key")}: ${line.token.label}`, line.key, "", "")),
      ...lines.map((line) => row(`${translate("products")}: ${line.token.label}`, line.products, number(line.score), percent(line.weight))),
    ]);
  }

  function fillSelect() {
    const tokens = sides[block().rows].tokens;
    const selected = Number(select.value);
    select.replaceChildren(...tokens.map((token, index) => make("option", { value: index }, token.label)));
    // `part` is the index of a token's text, -1 for special tokens such as [CLS].
    const firstWord = tokens.findIndex((token) => token.part >= 0);
    select.value = selected < tokens.length && shown ? selected : Math.max(0, firstWord);
  }

  fillSelect();
  select.addEventListener("change", draw);
  onBlock.push(fillSelect);
  onChoice.push(draw);
  redraws.push(draw);
  return (token) => {
    if (Number(select.value) === token) return;
    select.value = token;
    draw();
  };
}
