import createClient, { type Client } from "openapi-fetch";
import type { components, paths } from "./schema.js";

export type { components, paths };

/**
 * A client of timeoutd. Its methods are those of HTTP, and each path has the types of its parameters, body and answers from
 * openapi.yaml. A method returns data or error, and throws only if there was no answer.
 */
export type Timeoutd = Client<paths>;

/** Returns a client of the server at a URL such as http://127.0.0.1:8077. Without tokens the server asks for none. */
export function timeoutd(url: string, token?: string): Timeoutd {
  return createClient<paths>({ baseUrl: url, headers: token ? { Authorization: `Bearer ${token}` } : {} });
}
