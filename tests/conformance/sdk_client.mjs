// One conversation of the TypeScript SDK's client with the ask tool. Usage: node sdk_client.mjs JSON, with
// {modules, mode, versions, stdio: {command, args} or http: {url, token}}. Prints "progress" once it has
// heard of some, then one JSON object.
import { pathToFileURL } from "node:url";

const wanted = JSON.parse(process.argv[2]);
const load = (name) =>
  import(pathToFileURL(`${wanted.modules}/@modelcontextprotocol/client/dist/${name}.mjs`).href);
const { Client, StreamableHTTPClientTransport } = await load("index");
const { StdioClientTransport } = await load("stdio");

const options = { versionNegotiation: { mode: wanted.mode } };
if (wanted.versions) options.supportedProtocolVersions = wanted.versions;
const client = new Client({ name: "conformance", version: "0" }, options);
const transport = wanted.stdio
  ? new StdioClientTransport(wanted.stdio)
  : new StreamableHTTPClientTransport(new URL(wanted.http.url), {
      requestInit: { headers: { Authorization: `Bearer ${wanted.http.token}` } },
    });

const question = { question: "Which?", header: "Which", options: [{ label: "a" }, { label: "b" }], multiSelect: false };
let progress = 0;
const heard = () => {
  progress += 1;
  if (progress === 1) console.log("progress");
};
await client.connect(transport);
const { tools } = await client.listTools();
const result = await client.callTool(
  { name: "ask_user_question", arguments: { questions: [question] } },
  { onprogress: heard, resetTimeoutOnProgress: true },
);
const refused = await client.callTool({ name: "ask_user_question", arguments: {} });
let unknown = null;
try {
  await client.callTool({ name: "no_such_tool", arguments: {} });
} catch (error) {
  unknown = error.code;
}
console.log(
  JSON.stringify({
    version: client.getNegotiatedProtocolVersion(),
    server: client.getServerVersion()?.name ?? null,
    tools: tools.map((tool) => tool.name),
    answers: result.structuredContent,
    text: result.content[0].text,
    is_error: result.isError ?? false,
    progress,
    refused: refused.isError,
    unknown,
  }),
);
await client.close();
