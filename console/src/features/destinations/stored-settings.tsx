import { Fragment } from 'react';
import { visibleLine } from '../../ui/visible-text.ts';
import { type Destination, type DestinationDraft, draftOf } from './form.ts';
import { isStoredSecret, textOf } from './plain-form.ts';
import { VerifySnippets } from './verify.tsx';

/** The kinds of signatures that requests carry. */
function signaturesOf({
  sharedSecret,
  nextSharedSecret,
  signingSecrets,
  publicSignature,
}: DestinationDraft): string {
  const kinds = [
    ...(sharedSecret === '' ? [] : ['with a shared secret']),
    ...(nextSharedSecret === '' ? [] : ['with the next shared secret']),
    ...(signingSecrets.length === 0 ? [] : ['with Standard Webhooks secrets']),
    ...(publicSignature ? ['with a public key'] : []),
  ];
  return kinds.length === 0 ? 'no' : kinds.join(', ');
}

/** The settings of a type that has no form of its own, as the server shows them. */
function PlainStored({ destination: { sources, settings } }: { readonly destination: Destination }) {
  const rows = [['Sources', sources.join(', ')] as const, ...Object.entries(settings)];
  return (
    <dl className="kv">
      {rows.map(([name, value]) => (
        <Fragment key={name}>
          <dt>{name}</dt>
          <dd>{isStoredSecret(value) ? '…' : visibleLine(textOf(value), 2000)}</dd>
        </Fragment>
      ))}
    </dl>
  );
}

function changeNamesOf({ enteredEvent, exitedEvent, traitEvent }: DestinationDraft): [string, string][] {
  return [
    ['When a user enters', enteredEvent || 'Audience Entered'],
    ['When a user leaves', exitedEvent || 'Audience Exited'],
    ['When a trait is computed', traitEvent || 'Trait Computed'],
  ];
}

/** The settings as a viewer sees them: nothing to press. */
export function StoredSettings({ destination }: { readonly destination: Destination }) {
  if (destination.type !== 'webhooks') return <PlainStored destination={destination} />;
  const draft = draftOf(destination);
  const { sources, endpoints, format, userAgent, success, types, events, rateLimit, concurrency } = draft;
  const { consent, answersTo, integrationNames, changesAs, space, withEmail, withTraits } = draft;
  const rows: readonly (readonly [string, string])[] = [
    ['Sources', sources.join(', ')],
    ...endpoints.map(({ url, headers }, nth): readonly [string, string] => [
      endpoints.length === 1 ? 'URL' : `URL ${nth + 1}`,
      [url, ...headers.map(({ name, value }) => `${name}: ${typeof value === 'string' ? value : '…'}`)].join(
        ' · ',
      ),
    ]),
    ['Signed', signaturesOf(draft)],
    ['Body', format],
    ['User agent', userAgent === '' ? 'Millrace/1.0' : userAgent],
    ['Succeeds with', success],
    ['Types', types.length === 0 ? 'all' : types.join(', ')],
    ['Events', events === '' ? 'all' : events.replaceAll('\n', ', ')],
    ['Consent', consent === '' ? 'not asked for' : consent.replaceAll('\n', ', ')],
    ['Changes of audiences', changesAs === 'both' ? 'identify and track' : changesAs],
    ...(changesAs === 'identify' ? [] : changeNamesOf(draft)),
    ['Space', space === '' ? 'none' : space],
    ['E-mail addresses', withEmail ? 'an event for each' : 'none'],
    ['Traits with changes', withTraits === '' ? 'none' : withTraits.replaceAll('\n', ', ')],
    [
      'Integrations object',
      answersTo === 'usual' ? 'the names of all webhooks' : integrationNames.replaceAll('\n', ', ') || 'none',
    ],
    ['Requests a second', rateLimit === '' ? 'no limit' : rateLimit],
    ['Requests at once', concurrency === '' ? 'adapts' : concurrency],
  ];
  return (
    <div className="side">
      <dl className="kv">
        {rows.map(([name, value]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd>{visibleLine(value, 2000)}</dd>
          </Fragment>
        ))}
      </dl>
      <VerifySnippets />
    </div>
  );
}
