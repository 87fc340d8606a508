import { joinedPages, type Listed, type Page, type PublicApi } from './public-api.ts';
import { type Fields, fieldOf, fieldsOf, listOf, type OtherThing, textOf } from './workspace.ts';

/** Answers of the Public API as they were stored: a file each, or many in one file. */
export class StoredAnswers implements PublicApi {
  readonly #pages = new Map<string, Page[]>();
  readonly #failures = new Map<string, string>();
  readonly #asked = new Set<string>();

  /** `request` is `GET /destinations/d/subscriptions?pagination.cursor=MQ==`, or that path alone. */
  add(request: string, body: unknown): void {
    const { path, cursor } = requestParts(request);
    const data = fieldOf(body, 'data');
    if (typeof data !== 'object' || data === null) this.addFailure(path, failureIn(body));
    else
      this.#pagesOf(pathByContent(path, fieldsOf(data))).push({
        data: fieldsOf(data),
        ...(cursor === undefined ? {} : { cursor }),
      });
  }

  addFailure(request: string, reason: string): void {
    this.#failures.set(requestParts(request).path, reason);
  }

  async list(asked: string, key: string): Promise<Listed> {
    const { path } = requestParts(asked);
    this.#asked.add(path);
    const pages = this.#pages.get(path);
    const failure = this.#failures.get(path);
    if (pages === undefined) return { items: [], missing: failure ?? NOT_THERE };
    const joined = joinedPages(pages, key);
    return failure === undefined ? joined : { ...joined, missing: failure };
  }

  async one(asked: string): Promise<Fields | string> {
    const { path } = requestParts(asked);
    this.#asked.add(path);
    return this.#pages.get(path)?.[0]?.data ?? this.#failures.get(path) ?? NOT_THERE;
  }

  isAtHand(asked: string): boolean {
    const { path } = requestParts(asked);
    return this.#pages.has(path) || this.#failures.has(path);
  }

  unasked(): readonly OtherThing[] {
    const reason = 'is no answer that the import knows: nothing was made of it';
    return [...this.#pages]
      .filter(([path]) => !this.#asked.has(path))
      .flatMap(([path, pages]) => [
        { kind: 'answer', id: `GET ${path}`, reason },
        ...pages.flatMap(({ data }) => idsIn(data).map((id) => ({ kind: 'unknown', id, reason }))),
      ]);
  }

  #pagesOf(path: string): Page[] {
    const known = this.#pages.get(path) ?? [];
    this.#pages.set(path, known);
    return known;
  }
}

const NOT_THERE = 'is not among the answers';

function requestParts(request: string): { path: string; cursor?: string } {
  const [written = '', query = ''] = request.replace(/^GET +/, '').split('?', 2);
  const path = `/${decoded(written).replace(/^\/+|\/+$/g, '')}`;
  const parameters = new URLSearchParams(query);
  const cursor = parameters.get('pagination.cursor') ?? parameters.get('pagination[cursor]') ?? undefined;
  return { path, ...(cursor === undefined ? {} : { cursor }) };
}

/** Ids stand in names of files as they are, and in requests they may be escaped. */
function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

/** Two kinds of answers have one place each, whatever their file is called. */
function pathByContent(path: string, data: Fields): string {
  if ('workspace' in data) return '/';
  if (Array.isArray(data['functions'])) return '/functions';
  return path;
}

function failureIn(body: unknown): string {
  const [error] = listOf(fieldOf(body, 'errors'));
  const message = textOf(fieldOf(error, 'message'));
  return message === undefined ? 'has no data' : `is an error: ${message}`;
}

function idsIn(data: Fields): string[] {
  return Object.values(data).flatMap((value) => {
    const items = Array.isArray(value) ? (value as readonly unknown[]) : [value];
    return items.map((item) => textOf(fieldOf(item, 'id'))).filter((id) => id !== undefined);
  });
}

/**
 * The request of a file by its path below the folder: `destinations/d_1/subscriptions.json`, further pages
 * `….2.json`.
 */
export function requestOfFile(path: string): string {
  return `/${path.replaceAll('\\', '/').replace(/(\.\d+)?\.json$/i, '')}`;
}
