// The TypeScript SDK's client drives a session of `opask mcp`. Usage: node mcp_driver.mjs JSON, with {modules, mode,
// versions, forms, stdio: {command, args} or http: {url, token}}. Prints one JSON object.
import { pathToFileURL } from "node:url";

const wanted = JSON.parse(process.argv[2]);
const load = (name) =>
  import(pathToFileURL(`${wanted.modules}/@modelcontextprotocol/client/dist/${name}.mjs`).href);
const { Client, StreamableHTTPClientTransport } = await load("index");
const { StdioClientTransport } = await load("stdio");

const options = { versionNegotiation: { mode: wanted.mode } };
if (wanted.versions) options.supportedProtocolVersions = wanted.versions;
if (wanted.forms) options.capabilities = { elicitation: { form: {} } };
const client = new Client({ name: "typescript", version: "0" }, options);
const forms = [];
if (wanted.forms) {
  client.setRequestHandler("elicitation/create", async (request) => {
    forms.push(request.params);
    const fields = request.params.requestedSchema.properties;
    // Revisions without arrays have a field an option.
    const parts = fields.q2 ? { q2: ["API", "Docs"] } : { q2_o1: true, q2_o2: false, q2_o3: true };
    return { action: "accept", content: { q1: "SQLite", ...parts } };
  });
}
const transport = wanted.stdio
  ? new StdioClientTransport({ ...wanted.stdio, env: process.env })
  : new StreamableHTTPClientTransport(new URL(wanted.http.url), {
      requestInit: { headers: { Authorization: `Bearer ${wanted.http.token}` } },
    });

await client.connect(transport);
const { tools } = await client.listTools();
const results = [];
const call = async (name, given) => {
  const result = await client.callTool({ name, arguments: given });
  results.push(result.structuredContent ?? result.content[0].text);
  return result;
};
const first = await call("session_drive", { runtime: "demo", prompt: "Go." });
if (first.structuredContent.awaiting_operator) {
  const question_id = first.structuredContent.question_id;
  await call("session_answer", { question_id, answers: [{ labels: ["MySQL"] }, null] });
  await call("session_answer", { question_id, answers: [{ labels: ["SQLite"] }, { selected: [0, 2] }] });
}
console.log(
  JSON.stringify({
    version: client.getNegotiatedProtocolVersion(),
    tools: tools.map((tool) => tool.name),
    results,
    forms,
  }),
);
await client.close();
