// Requests to the server that serves the page.

let token = "";

export class RequestError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The token stays in the memory of the page. It must be valid in a header.
export const isToken = (value) => /^[\x21-\x7e]+$/.test(value);
export const setToken = (value) => { token = value; };
export const hasToken = () => token !== "";

export const getUrl = (path) => new URL(path, document.baseURI).href;

export const getModelPath = (name) => `v1/models/${encodeURIComponent(name)}`;

// Return the JSON of a response; POST if there is a body.
export async function request(path, body, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const method = body === undefined ? "GET" : "POST";
  let response;
  try {
    response = await fetch(getUrl(path), { method, headers, body, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(0, "The server does not respond. Check that it is running, and try again.");
  }
  let content = null;
  try {
    content = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (response.ok && content !== null) return content;
  const isText = typeof content?.error === "string";
  throw new RequestError(response.status, isText ? content.error : "The response is not JSON.");
}
