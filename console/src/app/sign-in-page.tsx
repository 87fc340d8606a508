import { useQueryClient } from '@tanstack/react-query';
import { getRouteApi, useRouter } from '@tanstack/react-router';
import { KeyRound } from 'lucide-react';
import { type FormEvent, useCallback, useEffect, useRef, useState } from 'react';
import { sentence } from '../api/client.ts';
import { endingOfSession, sessionQuery, signIn } from '../api/session.ts';
import { claimForms } from '../editing/drafts.ts';
import { channel, HEIGHT, type RaceRates, WIDTH } from '../features/overview/race-geometry.ts';
import { CodeBlock } from '../ui/code-block.tsx';
import { Button, Field, TextInput } from '../ui/controls.tsx';
import { Notice } from '../ui/empty-state.tsx';
import { Icon } from '../ui/icons.tsx';
import './shell.css';
import './sign-in-page.css';

const route = getRouteApi('/sign-in');

/**
 * Asks for a token of the control API. A link that `millrace dev` prints carries a code that works once
 * instead.
 */
export function SignInPage() {
  const { next = '/' } = route.useSearch();
  const [failure, setFailure] = useState<string>();
  const [token, setToken] = useState('');
  const [isBusy, setIsBusy] = useState(false);
  const ending = endingOfSession();
  const queryClient = useQueryClient();
  const router = useRouter();

  const enter = useCallback(
    async (proof: { token: string } | { code: string }): Promise<void> => {
      setIsBusy(true);
      setFailure(undefined);
      try {
        const session = await signIn(proof);
        claimForms(session.name);
        queryClient.setQueryData(sessionQuery.queryKey, session);
        await router.navigate({ href: next, replace: true });
      } catch (error) {
        setFailure(sentence(error));
        setIsBusy(false);
      }
    },
    [next, queryClient, router],
  );
  useSignInLink(enter);

  const onSubmit = (event: FormEvent): void => {
    event.preventDefault();
    void enter({ token: token.trim() });
  };
  return (
    <div className="si">
      <main>
        <form className="si-f" onSubmit={onSubmit}>
          <span className="brand si-brand">
            <Icon name="logo" />
            millrace
          </span>
          <div>
            <h1>Sign in to {location.hostname}</h1>
            <p className="soft">Nothing that was accepted is lost. See for yourself.</p>
          </div>
          {ending !== undefined && (
            <Notice>
              <p role="status">{ending}</p>
            </Notice>
          )}
          <Field
            label="Token"
            error={failure}
            hint="It stays in this browser for 12 hours, where no script can read it."
          >
            {(control) => (
              <TextInput
                {...control}
                name="token"
                type="password"
                before={<KeyRound className="i i-s dim" aria-hidden />}
                autoComplete="current-password"
                required
                value={token}
                onChange={(event) => setToken(event.target.value)}
              />
            )}
          </Field>
          <Button kind="primary" type="submit" disabled={isBusy || token.trim() === ''}>
            Sign in
          </Button>
          <p className="soft">
            The first token is a file in the server’s data folder. An administrator makes others under
            Settings.
          </p>
          <CodeBlock code="cat data/admin-token" label="Command that prints the first token" />
        </form>
      </main>
      <DryRace />
    </div>
  );
}

/** The channel of the overview without water: no rate is known before sign-in. */
function DryRace() {
  const { bed, edges } = channel(EXAMPLE_RATES);
  return (
    <svg
      className="si-race"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      aria-hidden="true"
      focusable="false"
    >
      <path className="si-bed" d={bed} />
      <path className="si-edge" d={edges[0]} />
      <path className="si-edge" d={edges[1]} />
    </svg>
  );
}

/** Rates that only set the width of the bed. */
const EXAMPLE_RATES: RaceRates = {
  ...{ received: 2_400, accepted: 2_400, owed: 2_400, delivered: 2_400 },
  ...{ discarded: 0, duplicates: 0, skipped: 0, retrying: 0, dead: 0 },
};

/**
 * Exchanges `#code=…` of the address for a session, once, and takes it out of the address and the history.
 */
function useSignInLink(enter: (proof: { code: string }) => Promise<void>): void {
  const isUsed = useRef(false);
  useEffect(() => {
    const code = new URLSearchParams(location.hash.slice(1)).get('code');
    if (code === null || isUsed.current) return;
    isUsed.current = true;
    history.replaceState(history.state, '', location.pathname + location.search);
    void enter({ code });
  }, [enter]);
}
