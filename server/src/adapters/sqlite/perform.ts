import type { Contents } from './contents.ts';
import type { Answers, OperationKind, Request } from './protocol.ts';

/** Does what a request asks for, inside the caller's transaction where it writes. */
export function perform(contents: Contents, request: Request): Answers[OperationKind] {
  switch (request.kind) {
    case 'append':
      return contents.append(request.append);
    case 'settle':
      return contents.settle(request.settle);
    case 'claim':
      return contents.pending.claim(request.destination, request.max, request.now);
    case 'release':
      return contents.release(request.destination, request.now);
    case 'expire':
      return contents.expire(request.destination, request.before, request.reason);
    case 'adopt':
      return contents.pending.adopt();
    case 'maintain':
      return contents.maintain(request.maintain);
    case 'erase':
      return contents.erase(request.positions);
    case 'scrub':
      return undefined;
    case 'find':
      return contents.find(request.find);
    case 'extent':
      return contents.search.extent(request.range, request.from);
    case 'size':
      return contents.size();
    case 'apply':
      return contents.records.apply(request.changes);
    case 'load':
      return contents.records.load();
    case 'audit': {
      const { query, limit, from } = request.audit;
      return contents.records.trail.page(query, limit, from);
    }
    case 'loadHealth':
      return contents.endpointHealth.load();
    case 'keepHealth':
      return contents.endpointHealth.keep(request.healths);
    case 'read':
      return contents.read(request.positions);
    case 'damaged':
      return contents.damaged(request.positions);
    case 'deadLetters':
      return contents.deadLetters.list(request.deadLetters);
    case 'countDead':
      return contents.deadLetters.count(request.deadLetters);
    case 'revive':
      return contents.deadLetters.revive(request.slice);
    case 'owe':
      return contents.owings.owe(request.slice);
    case 'owing':
      return contents.owings.of(request.origin);
    case 'pending':
      return contents.facts.page(request.pending);
    case 'history':
      return contents.histories.of(request.positions);
    case 'lanes':
      return contents.facts.lanes();
    case 'ledger':
      return contents.ledger();
    case 'stop':
      return undefined;
  }
}
