// The command line that sends the same request.

import { create } from "./dom.js";

const MAX_ARGUMENT = 30_000; // characters

const quoteShell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// Return a curl command. `body` is that of the request; images are in `files`, in order, and the
// command reads them from files of their names.
export function makeCommand(url, body, files, hasToken) {
  const header = hasToken ? ' -H "Authorization: Bearer $TOKEN"' : "";
  const json = JSON.stringify(body);
  if (!files.length && json.length <= MAX_ARGUMENT) {
    return `curl${header} ${quoteShell(url)} \\\n  -d ${quoteShell(json)}`;
  }
  // A body can be too long for an argument of a program; printf is part of the shell. JSON escapes
  // control characters, so that U+0001 marks the images.
  const values = files.map((file) => `"$(base64 < ${quoteShell(file.name)} | tr -d '\\n')"`);
  const template = files.reduce(
    (text, { b64 }) => text.replace(`"b64":"${b64}"`, '"b64":"\u0001"'), json);
  const format = template.replaceAll("\\", "\\\\").replaceAll("%", "%%").replaceAll("\u0001", "%s");
  return `printf ${[quoteShell(format), ...values].join(" ")} |\n`
    + `  curl${header} ${quoteShell(url)} -d @-`;
}

export function makeCommandView(command) {
  const copy = create("button", { type: "button", className: "small" }, "Copy");
  const text = create("pre", { className: "scroll", tabIndex: 0 }, command);
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command);
      copy.textContent = "Copied";
    } catch { // no permission, or no HTTPS: the user copies the selected text
      getSelection().selectAllChildren(text);
      copy.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  });
  return create("section", { className: "card command", ariaLabel: "Command line" },
    create("div", { className: "line" }, create("h2", {}, "Command line"), copy), text);
}
