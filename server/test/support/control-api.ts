import { until } from './until.ts';

export interface ControlAnswer<Body> {
  readonly status: number;
  /** Parsed; undefined where there is no body. */
  readonly answer: Body;
}

/** The control API of a running program, as an operator's own program asks it. */
export class ControlApi {
  readonly #access: () => { readonly url: string; readonly token: string };

  /** `access` is asked before each request: a program that was started again has another port. */
  constructor(access: () => { readonly url: string; readonly token: string }) {
    this.#access = access;
  }

  /** `path` is what stands behind `/api/v1/`. */
  async ask<Body = never>(
    method: string,
    path: string,
    body?: object,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<ControlAnswer<Body>> {
    const { url, token } = this.#access();
    const response = await fetch(`${url}/api/v1/${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, answer: (text === '' ? undefined : JSON.parse(text)) as Body };
  }

  /** The answer to a GET. Rejects with what the server says when it is no 200. */
  async read<Body = never>(path: string): Promise<Body> {
    const { status, answer } = await this.ask<Body>('GET', path);
    if (status !== 200) throw new Error(`GET ${path}: ${status} ${JSON.stringify(answer)}`);
    return answer;
  }

  /** Reads until the answer is as wanted, for what has no signal. */
  async until<Body>(path: string, isReached: (answer: Body) => boolean): Promise<Body> {
    const { answer } = await until(`${path} is as wanted`, async () => {
      const answer = await this.read<Body>(path);
      if (!isReached(answer)) throw new Error(`it is ${JSON.stringify(answer).slice(0, 1000)}`);
      return { answer };
    });
    return answer;
  }
}
