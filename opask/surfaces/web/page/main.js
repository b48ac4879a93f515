// @ts-check
/** Starts the page. */

import { App } from "./app.js";

new App(new URL("../", import.meta.url), document.body).start();
