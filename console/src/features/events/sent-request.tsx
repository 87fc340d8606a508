import { useQuery } from '@tanstack/react-query';
import { Fragment } from 'react';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Failure, Notice, SkeletonRows } from '../../ui/empty-state.tsx';
import { bytes } from '../../ui/format.ts';
import { JsonView } from '../../ui/json-view.tsx';
import { Clock } from '../../ui/time.tsx';
import { visibleLine, visibleText } from '../../ui/visible-text.ts';
import { type Attempt, deliveryRequestsQuery, type SentRequest as Request } from './queries.ts';

interface SentRequestProps {
  readonly deliveryId: string;
  readonly destination: string;
  readonly attempt: Attempt;
}

/**
 * The request of an attempt: URL, headers, signature and body, and whether it is certainly the one that was
 * sent.
 */
export function SentRequest({ deliveryId, destination, attempt }: SentRequestProps) {
  const { data, error, isPending } = useQuery(deliveryRequestsQuery(deliveryId));
  if (isPending) return <SkeletonRows rows={5} />;
  if (error !== null) return <Failure error={error} />;
  const request = data.data.find(({ url }) => url === attempt.endpoint) ?? data.data[0];
  if (request === undefined) return null;
  const { settingsChangedAt } = data;
  const isChanged =
    request.url !== attempt.endpoint ||
    (settingsChangedAt !== undefined && Date.parse(settingsChangedAt) > Date.parse(attempt.startedAt));
  const { host } = new URL(request.url);
  const length = new TextEncoder().encode(request.body).length;
  const signature = request.headers['X-Signature'];
  return (
    <>
      {isChanged && (
        <Notice tone="warn">
          {destination} was changed after this try, so this is how the event would be sent now. What was sent
          then may have had another URL, other headers or another signature.
        </Notice>
      )}
      <div className="box">
        <dl className="kv mono pad">
          <dt>POST</dt>
          <dd>{visibleText(request.url)}</dd>
          <dt>Sent</dt>
          <dd>
            <Clock at={attempt.startedAt} />
          </dd>
          <dt>Host</dt>
          <dd>{visibleText(host)}</dd>
          <dt>Content-Length</dt>
          <dd>{length}</dd>
          <Headers headers={request.headers} />
        </dl>
      </div>
      <JsonView
        label="the body that was sent"
        title={`Body, ${bytes(length)}, the same on every try`}
        value={parsed(request.body)}
        text={request.body}
      />
      {typeof signature === 'string' && (
        <CodeBlock
          title={`Signature: HMAC-SHA1 of exactly these bytes with the shared secret of ${visibleLine(destination, 40)}. Verify it yourself`}
          code={`printf %s "$BODY" | openssl dgst -sha1 -hmac "$SECRET"\n# ${signature}`}
          label="Command that computes the signature"
        />
      )}
      <p className="hint">
        {isChanged
          ? 'Made from the stored event with the settings as they are now.'
          : 'Made again from the stored event; the settings are those of that time, so headers, X-Signature and bytes are as sent. Webhook-Timestamp and Webhook-Signature are made for now.'}{' '}
        Not kept of a request: traceparent, and X-Replay-Id of a replay.
      </p>
    </>
  );
}

function Headers({ headers }: Pick<Request, 'headers'>) {
  return Object.entries(headers).map(([name, value]) => (
    <Fragment key={name}>
      <dt>{visibleText(name)}</dt>
      <dd>
        {typeof value === 'string' ? (
          visibleText(value)
        ) : (
          <span className="dim">a secret{value.hint === undefined ? '' : ` that ends in ${value.hint}`}</span>
        )}
      </dd>
    </Fragment>
  ));
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return body;
  }
}
