// The ask tool as a stdio server of the TypeScript SDK. Usage: node sdk_server.mjs NODE_MODULES
import { pathToFileURL } from "node:url";

const [modules] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(`${modules}/@modelcontextprotocol/server/dist/${name}.mjs`).href);
const { Server } = await load("index");
const { StdioServerTransport } = await load("stdio");

const option = { type: "object", properties: { label: { type: "string" }, description: { type: "string" } } };
const question = {
  type: "object",
  properties: {
    question: { type: "string" },
    header: { type: "string" },
    options: { type: "array", items: option },
    multiSelect: { type: "boolean" },
  },
};
const tool = {
  name: "ask_user_question",
  description: "Ask the human operator one to four questions and wait for the answers.",
  inputSchema: { type: "object", properties: { questions: { type: "array", items: question } } },
};
const structuredContent = { answers: { "Which database should the service use?": "PostgreSQL" } };

const server = new Server({ name: "opask", version: "0" }, { capabilities: { tools: {} } });
server.setRequestHandler("tools/list", async () => ({ tools: [tool] }));
server.setRequestHandler("tools/call", async () => ({
  content: [{ type: "text", text: JSON.stringify(structuredContent) }],
  structuredContent,
}));
await server.connect(new StdioServerTransport());
