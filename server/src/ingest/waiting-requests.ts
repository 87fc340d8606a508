import { invariant } from '../model/invariant.ts';

/** The events of a request, each with its bytes of JSON. */
interface SizedRequest {
  readonly events: readonly { readonly length: number }[];
}

/** The requests that wait for a commit, in their order, with their sums. */
export class WaitingRequests<Request extends SizedRequest> {
  #requests: Request[] = [];
  #events = 0;
  /** Of JSON, also of the commits under way: they stay in memory until they are answered. */
  #bytes = 0;

  get size(): number {
    return this.#requests.length;
  }

  get events(): number {
    return this.#events;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(request: Request, bytes: number): void {
    this.#bytes += bytes;
    this.#events += request.events.length;
    this.#requests.push(request);
  }

  /** Takes the first ones, up to so many events or bytes. Their bytes stay counted until `answered`. */
  takeGroup(most: { readonly events: number; readonly bytes: number }): Request[] {
    let requests = 0;
    let events = 0;
    let bytes = 0;
    while (requests < this.#requests.length && events < most.events && bytes < most.bytes) {
      const request = this.#requests[requests++]!;
      events += request.events.length;
      bytes += bytesOf(request);
    }
    invariant(requests > 0, 'a commit is made of a request at least');
    this.#events -= events;
    invariant(this.#events >= 0, 'no fewer events wait for a commit than none');
    return this.#requests.splice(0, requests);
  }

  /** Takes all of them. */
  takeAll(): Request[] {
    this.#events = 0;
    return this.#requests.splice(0);
  }

  /** Requests that were taken have their answers. */
  answered(requests: readonly Request[]): void {
    for (const request of requests) this.#bytes -= bytesOf(request);
    invariant(this.#bytes >= 0, 'no fewer bytes wait for a commit than none');
  }

  /** Call when nothing waits and nothing is under way. */
  checkIdle(): void {
    invariant(this.#requests.length === 0 && this.#events === 0, 'an idle queue holds no event');
    invariant(this.#bytes === 0, 'an idle queue holds no byte');
  }
}

export function bytesOf({ events }: SizedRequest): number {
  let bytes = 0;
  for (const { length } of events) bytes += length;
  return bytes;
}
