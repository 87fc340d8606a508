import { describe } from 'vitest';
import { itNotices } from '../../test/support/invariants.ts';
import { BoundedCache } from './containers.ts';
import { checkStep } from './regulation.ts';

describe('a regulation', () =>
  itNotices([
    ['a regulation that is done goes nowhere', () => checkStep('done', 'clean')],
    ['a regulation goes on to a step that follows its own', () => checkStep('survey', 'notify')],
  ]));

describe('a cache', () =>
  itNotices([
    ['an entry of a cache weighs no less than nothing', () => new BoundedCache(10).set('key', 'value', -1)],
  ]));
