import type { IncomingHttpHeaders } from 'node:http';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

/** As in a `Plan`. */
interface TargetValues {
  readonly names?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, string>>;
}

/** Path and query of a request of this operation. */
export function targetOf(
  { path }: Pick<DescribedOperation, 'path'>,
  { names = {}, query = {} }: TargetValues,
): string {
  const target = path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent((names[name] ?? '').toWellFormed()),
  );
  const asked = Object.entries(query)
    .map(([name, value]) => `${name}=${encodeURIComponent(value.toWellFormed())}`)
    .join('&');
  return asked === '' ? target : `${target}?${asked}`;
}

/** A JSON schema as the OpenAPI document has it. */
export type Schema = { readonly [key: string]: unknown };

export interface Parameter {
  readonly name: string;
  readonly in: 'path' | 'query' | 'header';
  readonly required?: boolean;
  readonly schema: Schema;
}

interface Response {
  readonly $ref?: string;
  readonly headers?: Readonly<Record<string, { readonly required?: boolean; readonly schema: Schema }>>;
  readonly content?: Readonly<Record<string, { readonly schema?: Schema }>>;
}

/** One operation of the document. */
export interface DescribedOperation {
  readonly id: string;
  readonly method: string;
  readonly path: string;
  readonly isControl: boolean;
  readonly parameters: readonly Parameter[];
  /** Of the body; absent where it takes none. */
  readonly body: Schema | undefined;
  readonly responses: Readonly<Record<string, Response>>;
}

export interface ReceivedResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface OpenApi {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Raw>>>>;
}

interface Raw {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly schema: Schema } } };
  readonly responses: Readonly<Record<string, Response>>;
}

/** Of HTTP itself, and for browsers, so no answer has to say that it may have them. */
const COMMON_HEADERS = [
  'connection',
  'content-length',
  'content-type',
  'date',
  'keep-alive',
  'transfer-encoding',
  'x-content-type-options',
];

const ROOT = 'openapi';

/** The OpenAPI document as something that answers can be held against. */
export class Document {
  readonly operations: readonly DescribedOperation[];
  readonly #whole: OpenApi;
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false });
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(whole: unknown) {
    this.#whole = whole as OpenApi;
    this.#ajv.addSchema(whole as object, ROOT, false, false);
    this.operations = Object.entries(this.#whole.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, raw]) => ({
        id: raw.operationId,
        method: method.toUpperCase(),
        path,
        isControl: raw.tags.includes('control'),
        parameters: raw.parameters ?? [],
        body: raw.requestBody?.content['application/json'].schema,
        responses: raw.responses,
      })),
    );
  }

  /** The error codes that an answer with this status may have; none where the schema names none. */
  codesOf({ responses }: DescribedOperation, status: string): readonly string[] {
    const content = Object.values(this.#followed(responses[status]!).content ?? {});
    const parts = (content[0]?.schema?.['allOf'] ?? []) as { properties?: { code?: { enum?: string[] } } }[];
    return parts.flatMap((part) => part.properties?.code?.enum ?? []);
  }

  /** Differences between an answer and the document. */
  faultsOf(operation: DescribedOperation, got: ReceivedResponse): string[] {
    const named = operation.responses[got.status];
    if (named === undefined) return [`status ${got.status} is not in the document: ${got.body}`];
    const response = this.#followed(named);
    return [
      ...headerFaults(response, operation.isControl, got.headers, this.#ajv),
      ...this.#bodyFaults(operation, response, got),
    ];
  }

  #bodyFaults(
    { method, path }: DescribedOperation,
    response: Response,
    { status, headers, body }: ReceivedResponse,
  ): string[] {
    if (response.content === undefined) return body === '' ? [] : [`has a body: ${body}`];
    const type = headers['content-type']?.replace(/;.*/, '') ?? '';
    const media = response.content[type];
    if (media === undefined) return [`content type ${type} of ${status} is not in the document`];
    if (media.schema === undefined || !type.endsWith('json')) return [];
    const key = `${method} ${path} ${status} ${type}`;
    const validate = this.#validators.get(key) ?? this.#ajv.compile(rooted(media.schema));
    this.#validators.set(key, validate);
    if (validate(JSON.parse(body))) return [];
    return [`${this.#ajv.errorsText(validate.errors)}: ${body.slice(0, 500)}`];
  }

  #followed(response: Response): Response {
    if (response.$ref === undefined) return response;
    const steps = response.$ref.split('/').slice(1);
    return steps.reduce((at: unknown, step) => (at as Schema)[step], this.#whole) as Response;
  }
}

function headerFaults(
  { headers: described = {} }: Response,
  isControl: boolean,
  headers: IncomingHttpHeaders,
  ajv: Ajv2020,
): string[] {
  const known = new Map(Object.entries(described).map(([name, header]) => [name.toLowerCase(), header]));
  const faults = Object.keys(headers)
    .filter(
      (name) =>
        !COMMON_HEADERS.includes(name) && !known.has(name) && !(isControl && name === 'cache-control'),
    )
    .map((name) => `header ${name} is not in the document`);
  if (isControl && headers['cache-control'] !== 'no-store') faults.push('may be stored on the way');
  for (const [name, { required, schema }] of known) {
    const text = headers[name]?.toString();
    if (text === undefined && required === true) faults.push(`header ${name} is missing`);
    const value = schema['type'] === 'integer' ? Number(text) : text;
    if (text !== undefined && !ajv.validate(schema, value)) faults.push(`header ${name} is ${text}`);
  }
  return faults;
}

/** References in a schema are those of the whole document. */
function rooted(schema: Schema): Schema {
  return JSON.parse(
    JSON.stringify(schema, (key, value) => (key === '$ref' ? `${ROOT}${value}` : value)),
  ) as Schema;
}
