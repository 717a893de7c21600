// @huggingface/inference and openai of npm against a server; prints what they get as JSON.
// node clients.cjs FOLDER_OF_NODE_MODULES ADDRESS
const { createRequire } = require("node:module");
const [folder, address] = process.argv.slice(2);
const load = createRequire(`${folder}/clients.cjs`);
const { InferenceClient } = load("@huggingface/inference");
const OpenAI = load("openai");

const client = (name) => new InferenceClient().endpoint(`${address}/models/${name}`);
const openai = new OpenAI({ baseURL: `${address}/v1`, apiKey: "none", maxRetries: 0 });
const text = "a good film";
const context = "the story was good and the film was very dull and awful .";

async function refusal(promise) {
  try {
    await promise;
  } catch (error) {
    return error.message;
  }
  return null;
}

async function main() {
  const question = { question: "the film ?", context };
  const comparison = { source_sentence: text, sentences: ["a bad film", "lovely"] };
  const embedding = await openai.embeddings.create({ model: "vectors", input: [text, context] });
  const asNumbers = await openai.embeddings.create({
    model: "vectors", input: text, encoding_format: "float", dimensions: 5,
  });
  const found = {
    fillMask: await client("masked_lm").fillMask({ inputs: "the [MASK] was dull" }),
    textClassification: await client("classify").textClassification({ inputs: text }),
    tokenClassification: await client("tag").tokenClassification({ inputs: context }),
    questionAnswering: await client("answer").questionAnswering({ inputs: question }),
    featureExtraction: await client("vectors").featureExtraction({ inputs: text }),
    sentenceSimilarity: await client("embed").sentenceSimilarity({ inputs: comparison }),
    zeroShotClassification: await client("nli").zeroShotClassification({
      inputs: context, parameters: { candidate_labels: ["good", "bad"], multi_label: true },
    }),
    refusal: await refusal(client("masked_lm").fillMask({ inputs: text })),
    embeddings: embedding.data.map((one) => Array.from(one.embedding)),
    tokens: embedding.usage.total_tokens,
    dimensions: asNumbers.data[0].embedding,
    openaiRefusal: await refusal(openai.embeddings.create({ model: "none", input: text })),
  };
  console.log(JSON.stringify(found));
}

main();
