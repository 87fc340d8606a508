/** TypeScript types of the control API, made from its OpenAPI document by `npm run generate`. */
import { readFileSync } from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';

const DOCUMENT = new URL('../../spec/openapi.json', import.meta.url);
const HEADER = `/**
 * Types of the control API, made from spec/openapi.json by \`npm run generate\`. Do not edit.
 * This file has over 600 lines because it is generated.
 */

`;

/** The text of `console/src/api/schema.d.ts`. */
export async function apiTypes(): Promise<string> {
  return HEADER + astToString(await openapiTS(JSON.parse(readFileSync(DOCUMENT, 'utf8'))));
}
