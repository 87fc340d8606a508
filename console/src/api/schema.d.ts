/**
 * Types of the control API, made from spec/openapi.json by `npm run generate`. Do not edit.
 * This file has over 600 lines because it is generated.
 */

export interface paths {
    "/v1/identify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Says who a user is, and what is known of them.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["identify"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/track": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Says what a user did.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["track"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/page": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Says which page of a site a user saw.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["page"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/screen": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Says which screen of an app a user saw.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["screen"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/group": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Says which group a user belongs to, and what is known of it.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["group"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/alias": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Says that two ids are of one user.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["alias"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/i": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The short form of /v1/identify.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["identifyShort"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/t": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The short form of /v1/track.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["trackShort"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/p": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The short form of /v1/page.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["pageShort"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/s": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The short form of /v1/screen.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["screenShort"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/g": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The short form of /v1/group.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["groupShort"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/a": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The short form of /v1/alias.
         * @description At most 32,768 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["aliasShort"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Takes calls of all types.
         * @description At most 524,288 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["batch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/b": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The short form of /v1/batch.
         * @description At most 524,288 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["batchShort"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The same as /v1/batch.
         * @description At most 524,288 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["import"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/imported": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * The same as /v1/batch, of calls that others made: none gets the address of the sender as its context.ip.
         * @description At most 524,288 bytes. Whatever Content-Type says, the body is read as JSON, also compressed with gzip.
         */
        post: operations["imported"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/forwarded": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Calls that another service of the protocol passes on: one of any type, or a list, each by its type.
         * @description At most 33,554,432 bytes and 4,000 calls. Times are final; a writeKey in a call means nothing. Where the source has forwarded.sharedSecret, X-Signature is checked. Overload is 503 here, never 429.
         */
        post: operations["forwarded"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/forwarded/{writeKey}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Calls that another service of the protocol passes on: one of any type, or a list, each by its type.
         * @description At most 33,554,432 bytes and 4,000 calls. Times are final; a writeKey in a call means nothing. Where the source has forwarded.sharedSecret, X-Signature is checked. Overload is 503 here, never 429.
         */
        post: operations["forwardedByKey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/m": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Takes what client libraries report about themselves, and throws it away. */
        post: operations["telemetry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/pixel/{type}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Takes one call as the query of an image.
         * @description Each key of the query is a path into the call, such as properties.total, or `data` is the whole call in base64. The answer is the image in every case; what is wrong is counted.
         */
        get: operations["pixel"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{writeKey}/settings": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Tells browsers and mobile clients how to send. The same for every key, so that it says nothing about which exist. */
        get: operations["projectSettings"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/.well-known/millrace/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The public key of a destination with publicSignature, by the random id of the key. */
        get: operations["publicKey"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Tells that the server is alive. */
        get: operations["healthz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Tells whether calls can be accepted now. */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/ledger": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows the sums of every source and destination, and whether they come out.
         * @description Needs the role `viewer`.
         */
        get: operations["getLedger"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows what somebody on call wants to see at once.
         * @description Needs the role `viewer`.
         */
        get: operations["getStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/discards": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows the last discarded calls of every source and reason.
         * @description Needs the role `viewer`.
         */
        get: operations["getDiscards"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events/{messageId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows an event's whole life: received, planned, every attempt, what happens next.
         * @description Needs the role `viewer`.
         */
        get: operations["getEventsMessageId"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows who is signed in.
         * @description Needs the role `viewer`.
         */
        get: operations["getSession"];
        put?: never;
        /**
         * Signs a browser in with a token, or with the code of a sign-in link.
         * @description Needs no token but the one in its body.
         */
        post: operations["postSession"];
        /**
         * Signs out: the session of the cookie ends everywhere.
         * @description Needs the role `viewer`.
         */
        delete: operations["deleteSession"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/timeline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows numbers over time: calls, deliveries, requests and how long they took.
         * @description Needs the role `viewer`.
         */
        get: operations["getTimeline"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/destinations/{name}/failures": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows the failed requests of a destination by endpoint and reason, with what to do about each.
         * @description Needs the role `viewer`.
         */
        get: operations["getDestinationsNameFailures"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tail": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows what happens as it happens: calls accepted or not, and every attempt to deliver.
         * @description Needs the role `viewer`.
         */
        get: operations["getTail"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the sources by name.
         * @description Needs the role `viewer`.
         */
        get: operations["getSources"];
        put?: never;
        /**
         * Creates a source; a write key is made when none is given.
         * @description Needs the role `editor`.
         */
        post: operations["postSources"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sources/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows a source.
         * @description Needs the role `viewer`.
         */
        get: operations["getSourcesName"];
        put?: never;
        post?: never;
        /**
         * Removes a source; its write keys are unknown from then on, and what it sent stays.
         * @description Needs the role `editor`.
         */
        delete: operations["deleteSourcesName"];
        options?: never;
        head?: never;
        /**
         * Changes a source by a JSON merge patch.
         * @description Needs the role `editor`.
         */
        patch: operations["patchSourcesName"];
        trace?: never;
    };
    "/api/v1/destinations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the destinations by name.
         * @description Needs the role `viewer`.
         */
        get: operations["getDestinations"];
        put?: never;
        /**
         * Creates a destination.
         * @description Needs the role `editor`.
         */
        post: operations["postDestinations"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/destinations/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows a destination.
         * @description Needs the role `viewer`.
         */
        get: operations["getDestinationsName"];
        put?: never;
        post?: never;
        /**
         * Removes a destination; what it is still owed becomes dead letters.
         * @description Needs the role `editor`.
         */
        delete: operations["deleteDestinationsName"];
        options?: never;
        head?: never;
        /**
         * Changes a destination by a JSON merge patch, from the next request to its endpoints on.
         * @description Needs the role `editor`.
         */
        patch: operations["patchDestinationsName"];
        trace?: never;
    };
    "/api/v1/destinations/{name}/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Tells how a destination does, and what it is still owed.
         * @description Needs the role `viewer`.
         */
        get: operations["getDestinationsNameStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/destinations/{name}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Holds everything of a destination: what it is owed waits, and so does what arrives for it.
         * @description Needs the role `editor`.
         */
        post: operations["postDestinationsNamePause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/destinations/{name}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sends to a paused destination again, what has waited first.
         * @description Needs the role `editor`.
         */
        post: operations["postDestinationsNameResume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/destinations/{name}/disable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Skips what arrives for a destination, which is never sent; what it is owed already waits.
         * @description Needs the role `editor`.
         */
        post: operations["postDestinationsNameDisable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/destinations/{name}/enable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Owes a disabled destination what arrives again, and sends what has waited.
         * @description Needs the role `editor`.
         */
        post: operations["postDestinationsNameEnable"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/destinations/{name}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sends an example of an event to every endpoint, once, and shows what was sent and answered.
         * @description Needs the role `editor`.
         */
        post: operations["postDestinationsNameTest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Finds stored events, the newest first, each with its whole life. Looks for about a second: a page may be short, or empty, and go on with `next`.
         * @description Needs the role `viewer`.
         */
        get: operations["getEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/compare": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Compares what two sources have of the same calls: equal, different by event and field, missing on either side.
         * @description Needs the role `viewer`.
         */
        get: operations["getCompare"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Finds deliveries, those of the newest events first, dead and dropped ones by when they were given up. Looks for about a second: a page may be short, or empty, and go on with `next`.
         * @description Needs the role `viewer`.
         */
        get: operations["getDeliveries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/deliveries/{id}/requests": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows the requests of a delivery, one for each endpoint: made anew from the stored event, with the settings as they are now, so with the same bytes and X-Signature unless those were changed. Webhook-Timestamp is that of this moment: a signature for a time to come would be good then. Signatures are for the role `editor`.
         * @description Needs the role `viewer`.
         */
        get: operations["getDeliveriesIdRequests"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/profiles/{userId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows what is known of a user, by its userId or a former one.
         * @description Needs the role `viewer`.
         */
        get: operations["getProfilesUserId"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/profiles": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows what is known of a user, by any of its ids: the way for ids that a path cannot carry, such as `..`.
         * @description Needs the role `viewer`.
         */
        get: operations["getProfiles"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/profiles/rebuild": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Forgets all profiles and applies the stored events again.
         * @description Needs the role `admin`.
         */
        post: operations["postProfilesRebuild"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/merges": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists userIds that are one profile and that stored events would not join by the rules of today, as those of earlier versions did. Reads all stored events for each page.
         * @description Needs the role `admin`.
         */
        get: operations["getMerges"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/splits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists splits. The ids are kept as hashes alone, so the list does not name them.
         * @description Needs the role `viewer`.
         */
        get: operations["getSplits"];
        put?: never;
        /**
         * Takes a wrong merge apart: two ids are never ids of one profile from now on.
         * @description Needs the role `admin`.
         */
        post: operations["postSplits"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/splits/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Ends a split: the next event that joins the two ids joins them again.
         * @description Needs the role `admin`.
         */
        delete: operations["deleteSplitsId"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audiences": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the audiences by name.
         * @description Needs the role `viewer`.
         */
        get: operations["getAudiences"];
        put?: never;
        /**
         * Creates an audience; it counts the stored events, and then tells its destinations.
         * @description Needs the role `editor`.
         */
        post: operations["postAudiences"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audiences/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows an audience, and how far it is.
         * @description Needs the role `viewer`.
         */
        get: operations["getAudiencesName"];
        put?: never;
        post?: never;
        /**
         * Removes an audience that no other definition mentions.
         * @description Needs the role `editor`.
         */
        delete: operations["deleteAudiencesName"];
        options?: never;
        head?: never;
        /**
         * Changes an audience by a JSON merge patch; another definition counts the stored events anew.
         * @description Needs the role `editor`.
         */
        patch: operations["patchAudiencesName"];
        trace?: never;
    };
    "/api/v1/audiences/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Computes a definition over the stored events, without keeping or sending anything.
         * @description Needs the role `editor`.
         */
        post: operations["postAudiencesPreview"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audiences/{name}/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the members of an audience.
         * @description Needs the role `viewer`.
         */
        get: operations["getAudiencesNameMembers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audiences/{name}/sync": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Tells a destination every member again, and who it has to hear is none.
         * @description Needs the role `editor`.
         */
        post: operations["postAudiencesNameSync"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/traits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the computed traits by name.
         * @description Needs the role `viewer`.
         */
        get: operations["getTraits"];
        put?: never;
        /**
         * Creates a computed trait; it counts the stored events, and then tells its destinations.
         * @description Needs the role `editor`.
         */
        post: operations["postTraits"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/traits/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows a computed trait, and how far it is.
         * @description Needs the role `viewer`.
         */
        get: operations["getTraitsName"];
        put?: never;
        post?: never;
        /**
         * Removes a computed trait that no other definition mentions.
         * @description Needs the role `editor`.
         */
        delete: operations["deleteTraitsName"];
        options?: never;
        head?: never;
        /**
         * Changes a computed trait by a JSON merge patch; another definition counts the stored events anew.
         * @description Needs the role `editor`.
         */
        patch: operations["patchTraitsName"];
        trace?: never;
    };
    "/api/v1/traits/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Computes a definition over the stored events, without keeping or sending anything.
         * @description Needs the role `editor`.
         */
        post: operations["postTraitsPreview"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/traits/{name}/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the users who have a value.
         * @description Needs the role `viewer`.
         */
        get: operations["getTraitsNameMembers"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/traits/{name}/sync": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Tells a destination the value of every user again.
         * @description Needs the role `editor`.
         */
        post: operations["postTraitsNameSync"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/redeliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sends events to a destination once more: dead letters and dropped ones with a new retry window, delivered ones as new deliveries.
         * @description Needs the role `editor`.
         */
        post: operations["postRedeliveries"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/replays": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the replays that run and those that have ended last, the newest first.
         * @description Needs the role `viewer`.
         */
        get: operations["getReplays"];
        put?: never;
        /**
         * Sends the stored events of a range of time to one destination, as new deliveries.
         * @description Needs the role `editor`.
         */
        post: operations["postReplays"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/replays/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows how far a replay has come.
         * @description Needs the role `viewer`.
         */
        get: operations["getReplaysId"];
        put?: never;
        post?: never;
        /**
         * Cancels a replay: nothing more is owed for it; one that has ended stays as it is.
         * @description Needs the role `editor`.
         */
        delete: operations["deleteReplaysId"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/regulations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists regulations, the newest first.
         * @description Needs the role `viewer`.
         */
        get: operations["getRegulations"];
        put?: never;
        /**
         * Deletes users, suppresses them, or ends their suppression.
         * @description Needs the role `admin`.
         */
        post: operations["postRegulations"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/regulations/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The receipt of a regulation: what was erased, and which endpoints have confirmed it.
         * @description Needs the role `viewer`.
         */
        get: operations["getRegulationsId"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/regulations/{id}/subjects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The ids of a regulation, what was found joined to each, and which of them name nobody, until it ends; then none.
         * @description Needs the role `admin`.
         */
        get: operations["getRegulationsIdSubjects"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/suppressions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists suppressed users whose ids are kept (SUPPRESS_ONLY), by their ids. With userId or userIdJson: that user, whether its id is kept or its hash. With anonymousId or anonymousIdJson: that visitor.
         * @description Needs the role `viewer`.
         */
        get: operations["getSuppressions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/suppressions/{userId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Tells since when a user is suppressed.
         * @description Needs the role `viewer`.
         */
        get: operations["getSuppressionsUserId"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/alerts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the alerts by name, with what they have told and how the last message fared.
         * @description Needs the role `viewer`.
         */
        get: operations["getAlerts"];
        put?: never;
        /**
         * Creates an alert.
         * @description Needs the role `editor`.
         */
        post: operations["postAlerts"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/alerts/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows an alert.
         * @description Needs the role `viewer`.
         */
        get: operations["getAlertsName"];
        put?: never;
        post?: never;
        /**
         * Removes an alert.
         * @description Needs the role `editor`.
         */
        delete: operations["deleteAlertsName"];
        options?: never;
        head?: never;
        /**
         * Changes an alert by a JSON merge patch.
         * @description Needs the role `editor`.
         */
        patch: operations["patchAlertsName"];
        trace?: never;
    };
    "/api/v1/alerts/{name}/test": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Sends a message that says that it is a test, once, and shows what the receiver answered.
         * @description Needs the role `editor`.
         */
        post: operations["postAlertsNameTest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/config/file": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Names the records that the configuration file of this start has: the next start undoes other changes of them.
         * @description Needs the role `viewer`.
         */
        get: operations["getConfigFile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Shows all records as a configuration file has them, without their secrets.
         * @description Needs the role `viewer`.
         */
        get: operations["getConfig"];
        /**
         * Makes the records what a configuration file says, all of them or none.
         * @description Needs the role `editor`.
         */
        put: operations["putConfig"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the tokens of the control API.
         * @description Needs the role `admin`.
         */
        get: operations["getTokens"];
        put?: never;
        /**
         * Makes a token; the answer is the only place where it is ever shown.
         * @description Needs the role `admin`.
         */
        post: operations["postTokens"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Revokes a token at once.
         * @description Needs the role `admin`.
         */
        delete: operations["deleteTokensName"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the changes of records, the newest first; secrets are not shown.
         * @description Needs the role `viewer`.
         */
        get: operations["getAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/backups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Lists the backups made since the start, the newest first.
         * @description Needs the role `admin`.
         */
        get: operations["getBackups"];
        put?: never;
        /**
         * Begins a backup: a copy of the running server, as it is now, in a folder on its machine.
         * @description Needs the role `admin`.
         */
        post: operations["postBackups"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/backups/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * How far a backup is, or what became of it.
         * @description Needs the role `admin`.
         */
        get: operations["getBackupsId"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document. */
        get: operations["getOpenapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Metrics as Prometheus reads them.
         * @description Needs a token of any role, or none where `metrics.public` is set.
         */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Refusal: {
            /** @constant */
            success: false;
            /** @description Which error it is; never changes. spec/errors.json. */
            code: string;
            message: string;
            /** @description With invalid_calls: the calls that are not valid, by their place in the batch. */
            errors?: {
                index: number;
                code: string;
                message: string;
            }[];
        };
        /** @description What every call may have. One of userId and anonymousId has to be there. Keys that are not listed are kept where a destination's format has them. */
        Message: {
            /** @description Text of at most 1,024 UTF-16 code units, or a number, which becomes its decimal text. null and an empty text are as if it were absent. */
            userId?: string | number | null;
            /** @description Text of at most 1,024 UTF-16 code units, or a number, which becomes its decimal text. null and an empty text are as if it were absent. */
            anonymousId?: string | number | null;
            /** @description What makes it the same event when it is sent again: at most 100 UTF-16 code units. A longer one is replaced by a hash of it, the same each time; made when absent. */
            messageId?: string | number | null;
            /** @description A date or a time in one of the usual forms, or a number since 1970; one that cannot be read is kept as text, and the event is dated by its arrival. */
            timestamp?: string | number | Record<string, never> | null;
            /** @description A date or a time in one of the usual forms, or a number since 1970; one that cannot be read is kept as text, and the event is dated by its arrival. */
            originalTimestamp?: string | number | Record<string, never> | null;
            /** @description A date or a time in one of the usual forms, or a number since 1970; one that cannot be read is kept as text, and the event is dated by its arrival. */
            sentAt?: string | number | Record<string, never> | null;
            /** @description Where and how it happened. */
            context?: Record<string, never> | unknown[] | null;
            /** @description Which destinations it is for: their names, Webhooks or All, with true or false. */
            integrations?: Record<string, never> | unknown[] | null;
            /** @description Comes before the one of the batch and of the Authorization header. */
            writeKey?: string | null;
            /** @description The path says it, and wins. */
            type?: string | null;
        } | unknown | unknown;
        Identify: components["schemas"]["Message"] & {
            /** @description What is known of the user. */
            traits?: Record<string, never> | unknown[] | null;
        };
        Track: components["schemas"]["Message"] & {
            /** @description What it was, such as Order Placed. */
            event: string;
            /** @description What belongs to it. */
            properties?: Record<string, never> | unknown[] | null;
        };
        Page: components["schemas"]["Message"] & {
            /** @description Of the page. */
            name?: string | null;
            /** @description Of the page. */
            category?: string | null;
            /** @description What belongs to it. */
            properties?: Record<string, never> | unknown[] | null;
        };
        Screen: components["schemas"]["Message"] & {
            /** @description Of the screen. */
            name?: string | null;
            /** @description Of the screen. */
            category?: string | null;
            /** @description What belongs to it. */
            properties?: Record<string, never> | unknown[] | null;
        };
        Group: components["schemas"]["Message"] & {
            /** @description Text of at most 1,024 UTF-16 code units, or a number, which becomes its decimal text. null and an empty text are as if it were absent. */
            groupId: string | number;
            /** @description What is known of the group. */
            traits?: Record<string, never> | unknown[] | null;
        };
        Alias: components["schemas"]["Message"] & {
            /** @description Text of at most 1,024 UTF-16 code units, or a number, which becomes its decimal text. null and an empty text are as if it were absent. */
            previousId: string | number;
        };
        Batch: {
            /** @description At most 2,500 calls, each with its type. A call that is not valid is discarded, and the others are kept. */
            batch: {
                /** @enum {unknown} */
                type: "identify" | "track" | "page" | "screen" | "group" | "alias";
            }[];
            /** @description Comes before the one of the batch and of the Authorization header. */
            writeKey?: string | null;
            /** @description A date or a time in one of the usual forms, or a number since 1970; one that cannot be read is kept as text, and the event is dated by its arrival. */
            sentAt?: string | number | Record<string, never> | null;
            /** @description Merged into the context of each call, shallowly; the call wins. */
            context?: Record<string, never> | unknown[] | null;
            /** @description Merged into those of each call, shallowly; the call wins. */
            integrations?: Record<string, never> | unknown[] | null;
        };
        Problem: {
            type: string;
            /** @description The status in words. */
            title: string;
            status: number;
            /** @description What is wrong, and what to do about it. */
            detail: string;
            /** @description Which error it is; never changes. */
            code: string;
            errors?: {
                path: string;
                message: string;
                /** @description Of a mistake in a definition: the line of its text, from 1. */
                line?: number;
                /** @description The column in that line, from 1. */
                column?: number;
            }[];
            /**
             * @description More is wrong than `errors` lists. Absent when it lists everything.
             * @constant
             */
            truncated?: true;
        };
    };
    responses: {
        /** @description Every event that was accepted is on stable storage. */
        Stored: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": {
                    /** @constant */
                    success: true;
                };
            };
        };
        /** @description The call is not valid, and nothing was kept. Sending it again does not help. */
        InvalidCall: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Refusal"] & {
                    /** @enum {unknown} */
                    code?: "malformed_request" | "unsupported_encoding" | "invalid_encoding" | "invalid_json" | "message_too_large" | "too_deeply_nested" | "not_an_object" | "not_utf8" | "id_not_string" | "id_too_long" | "id_not_unicode" | "no_user_anon_id" | "user_id_missing" | "previous_id_missing" | "group_id_missing" | "event_not_defined" | "event_not_string" | "name_not_string" | "category_not_string" | "properties_not_object" | "traits_not_object" | "context_not_object" | "integrations_not_object";
                };
            };
        };
        /** @description The batch cannot be read, or its source is strict and a call of it is not valid; nothing was kept. Sending it again does not help. */
        InvalidBatch: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Refusal"] & {
                    /** @enum {unknown} */
                    code?: "malformed_request" | "unsupported_encoding" | "invalid_encoding" | "invalid_json" | "not_utf8" | "batch_not_array" | "batch_too_large" | "context_not_object" | "integrations_not_object" | "invalid_calls";
                };
            };
        };
        /** @description There is no write key, or its source is unknown or disabled. */
        Unauthorized: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Refusal"] & {
                    /** @enum {unknown} */
                    code?: "missing_write_key" | "invalid_write_key" | "invalid_signature";
                };
            };
        };
        /** @description Nothing was kept: send it again after the time in Retry-After. */
        ComeBack: {
            headers: {
                /** @description Seconds. */
                "Retry-After": number;
                /** @description The same number. */
                "X-RateLimit-Reset": number;
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Refusal"] & {
                    /** @enum {unknown} */
                    code?: "overloaded" | "rate_limited";
                };
            };
        };
        /** @description Nothing could be stored: send it again after the time in Retry-After. */
        Unavailable: {
            headers: {
                /** @description Seconds. */
                "Retry-After": number;
                /** @description The same number. */
                "X-RateLimit-Reset": number;
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Refusal"] & {
                    /** @enum {unknown} */
                    code?: "storage_unavailable";
                };
            };
        };
        /** @description An error of the server; sending it again is safe. */
        Failed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Refusal"] & {
                    /** @enum {unknown} */
                    code?: "internal_error";
                };
            };
        };
        /** @description The body cannot be read, or its only call is not valid, or its source is strict and a call of the list is not; nothing was kept. */
        InvalidForwarded: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Refusal"] & {
                    /** @enum {unknown} */
                    code?: "malformed_request" | "unsupported_encoding" | "invalid_encoding" | "invalid_json" | "batch_too_large" | "invalid_calls" | "message_too_large" | "too_deeply_nested" | "not_an_object" | "unknown_type" | "id_not_string" | "id_too_long" | "id_not_unicode" | "not_utf8" | "no_user_anon_id" | "user_id_missing" | "previous_id_missing" | "group_id_missing" | "event_not_defined" | "event_not_string" | "name_not_string" | "category_not_string" | "properties_not_object" | "traits_not_object" | "context_not_object" | "integrations_not_object";
                };
            };
        };
        /** @description Unauthorized: `token_invalid`, `token_expired`, `token_missing`, `session_over` */
        "session_over.token_expired.token_invalid.token_missing": {
            headers: {
                "WWW-Authenticate": string;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 401;
                    /** @enum {unknown} */
                    code?: "token_invalid" | "token_expired" | "token_missing" | "session_over";
                };
            };
        };
        /** @description Forbidden: `outside_token` */
        outside_token: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 403;
                    /** @enum {unknown} */
                    code?: "outside_token";
                };
            };
        };
        /** @description Payload Too Large: `body_too_large` */
        body_too_large: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 413;
                    /** @enum {unknown} */
                    code?: "body_too_large";
                };
            };
        };
        /** @description Misdirected Request: `host_not_allowed` */
        host_not_allowed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 421;
                    /** @enum {unknown} */
                    code?: "host_not_allowed";
                };
            };
        };
        /** @description Unprocessable Entity: `invalid_parameters` */
        invalid_parameters: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 422;
                    /** @enum {unknown} */
                    code?: "invalid_parameters";
                };
            };
        };
        /** @description Too Many Requests: `too_many_failed_sign_ins` */
        too_many_failed_sign_ins: {
            headers: {
                /** @description Seconds. */
                "Retry-After": number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 429;
                    /** @enum {unknown} */
                    code?: "too_many_failed_sign_ins";
                };
            };
        };
        /** @description Internal Server Error: `internal_error` */
        internal_error: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 500;
                    /** @enum {unknown} */
                    code?: "internal_error";
                };
            };
        };
        /** @description Service Unavailable: `store_unreadable` */
        store_unreadable: {
            headers: {
                /** @description Seconds. */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 503;
                    /** @enum {unknown} */
                    code?: "store_unreadable";
                };
            };
        };
        /** @description Forbidden: `outside_token`, `bodies_not_shown` */
        "bodies_not_shown.outside_token": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 403;
                    /** @enum {unknown} */
                    code?: "outside_token" | "bodies_not_shown";
                };
            };
        };
        /** @description Bad Request: `body_not_json` */
        body_not_json: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 400;
                    /** @enum {unknown} */
                    code?: "body_not_json";
                };
            };
        };
        /** @description Unauthorized: `token_invalid`, `token_expired`, `sign_in_code_used` */
        "sign_in_code_used.token_expired.token_invalid": {
            headers: {
                "WWW-Authenticate": string;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 401;
                    /** @enum {unknown} */
                    code?: "token_invalid" | "token_expired" | "sign_in_code_used";
                };
            };
        };
        /** @description Forbidden: `cross_site_request`, `role_too_low`, `outside_token` */
        "cross_site_request.outside_token.role_too_low": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 403;
                    /** @enum {unknown} */
                    code?: "cross_site_request" | "role_too_low" | "outside_token";
                };
            };
        };
        /** @description Forbidden: `cross_site_request` */
        cross_site_request: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 403;
                    /** @enum {unknown} */
                    code?: "cross_site_request";
                };
            };
        };
        /** @description Service Unavailable: `store_unwritable` */
        store_unwritable: {
            headers: {
                /** @description Seconds. */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 503;
                    /** @enum {unknown} */
                    code?: "store_unwritable";
                };
            };
        };
        /** @description Not Found: `unknown_name` */
        unknown_name: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 404;
                    /** @enum {unknown} */
                    code?: "unknown_name";
                };
            };
        };
        /** @description Service Unavailable: `too_many_viewers` */
        too_many_viewers: {
            headers: {
                /** @description Seconds. */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 503;
                    /** @enum {unknown} */
                    code?: "too_many_viewers";
                };
            };
        };
        /** @description Conflict: `name_taken` */
        name_taken: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 409;
                    /** @enum {unknown} */
                    code?: "name_taken";
                };
            };
        };
        /** @description Unprocessable Entity: `invalid_parameters`, `idempotency_key_reused` */
        "idempotency_key_reused.invalid_parameters": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 422;
                    /** @enum {unknown} */
                    code?: "invalid_parameters" | "idempotency_key_reused";
                };
            };
        };
        /** @description Conflict: `system_record` */
        system_record: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 409;
                    /** @enum {unknown} */
                    code?: "system_record";
                };
            };
        };
        /** @description Precondition Failed: `changed_meanwhile` */
        changed_meanwhile: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 412;
                    /** @enum {unknown} */
                    code?: "changed_meanwhile";
                };
            };
        };
        /** @description Conflict: `confirmation_needed` */
        confirmation_needed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 409;
                    /** @enum {unknown} */
                    code?: "confirmation_needed";
                };
            };
        };
        /** @description Not Found: `unknown_delivery` */
        unknown_delivery: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 404;
                    /** @enum {unknown} */
                    code?: "unknown_delivery";
                };
            };
        };
        /** @description Not Found: `unknown_user` */
        unknown_user: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 404;
                    /** @enum {unknown} */
                    code?: "unknown_user";
                };
            };
        };
        /** @description Forbidden: `cross_site_request`, `role_too_low` */
        "cross_site_request.role_too_low": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 403;
                    /** @enum {unknown} */
                    code?: "cross_site_request" | "role_too_low";
                };
            };
        };
        /** @description Conflict: `rebuild_loses` */
        rebuild_loses: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 409;
                    /** @enum {unknown} */
                    code?: "rebuild_loses";
                };
            };
        };
        /** @description Forbidden: `role_too_low` */
        role_too_low: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 403;
                    /** @enum {unknown} */
                    code?: "role_too_low";
                };
            };
        };
        /** @description Conflict: `split_loses`, `too_many_splits` */
        "split_loses.too_many_splits": {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 409;
                    /** @enum {unknown} */
                    code?: "split_loses" | "too_many_splits";
                };
            };
        };
        /** @description Conflict: `still_mentioned` */
        still_mentioned: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 409;
                    /** @enum {unknown} */
                    code?: "still_mentioned";
                };
            };
        };
        /** @description Too Many Requests: `too_many_failed_sign_ins`, `preview_running` */
        "preview_running.too_many_failed_sign_ins": {
            headers: {
                /** @description Seconds. */
                "Retry-After": number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 429;
                    /** @enum {unknown} */
                    code?: "too_many_failed_sign_ins" | "preview_running";
                };
            };
        };
        /** @description Service Unavailable: `profiles_unavailable` */
        profiles_unavailable: {
            headers: {
                /** @description Seconds. */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 503;
                    /** @enum {unknown} */
                    code?: "profiles_unavailable";
                };
            };
        };
        /** @description Service Unavailable: `store_unwritable`, `profiles_unavailable` */
        "profiles_unavailable.store_unwritable": {
            headers: {
                /** @description Seconds. */
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 503;
                    /** @enum {unknown} */
                    code?: "store_unwritable" | "profiles_unavailable";
                };
            };
        };
        /** @description Conflict: `destination_not_enabled` */
        destination_not_enabled: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 409;
                    /** @enum {unknown} */
                    code?: "destination_not_enabled";
                };
            };
        };
        /** @description Too Many Requests: `too_many_failed_sign_ins`, `too_many_tests` */
        "too_many_failed_sign_ins.too_many_tests": {
            headers: {
                /** @description Seconds. */
                "Retry-After": number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 429;
                    /** @enum {unknown} */
                    code?: "too_many_failed_sign_ins" | "too_many_tests";
                };
            };
        };
        /** @description Conflict: `backup_running` */
        backup_running: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"] & {
                    /** @constant */
                    status?: 409;
                    /** @enum {unknown} */
                    code?: "backup_running";
                };
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    identify: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Identify"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    track: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Track"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    page: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Page"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    screen: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Screen"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    group: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Group"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    alias: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Alias"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    identifyShort: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Identify"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    trackShort: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Track"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    pageShort: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Page"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    screenShort: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Screen"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    groupShort: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Group"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    aliasShort: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Alias"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidCall"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    batch: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Batch"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidBatch"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    batchShort: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Batch"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidBatch"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    import: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Batch"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidBatch"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    imported: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Batch"];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidBatch"];
            401: components["responses"]["Unauthorized"];
            429: components["responses"]["ComeBack"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    forwarded: {
        parameters: {
            query?: never;
            header?: {
                "X-Signature"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, never> | unknown[];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidForwarded"];
            401: components["responses"]["Unauthorized"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    forwardedByKey: {
        parameters: {
            query?: never;
            header?: {
                "X-Signature"?: string;
            };
            path: {
                writeKey: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, never> | unknown[];
            };
        };
        responses: {
            200: components["responses"]["Stored"];
            400: components["responses"]["InvalidForwarded"];
            401: components["responses"]["Unauthorized"];
            500: components["responses"]["Failed"];
            503: components["responses"]["Unavailable"];
        };
    };
    telemetry: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is gone. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        success: true;
                    };
                };
            };
        };
    };
    pixel: {
        parameters: {
            query?: {
                /** @description The call, as JSON in base64. */
                data?: string;
                /** @description The keys of the call itself. */
                call?: {
                    [key: string]: string;
                };
            };
            header?: never;
            path: {
                /** @description Long or short. */
                type: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A transparent image of one point. */
            200: {
                headers: {
                    "Cache-Control": string;
                    /** @description The origin of the request, where it has one. */
                    "Access-Control-Allow-Origin"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "image/gif": unknown;
                };
            };
        };
    };
    projectSettings: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                writeKey: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The settings. */
            200: {
                headers: {
                    "Cache-Control": string;
                    /** @description The origin of the request, where it has one. */
                    "Access-Control-Allow-Origin"?: string;
                    Vary: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        integrations: {
                            "Segment.io": {
                                apiKey: string;
                                apiHost?: string;
                                protocol?: string;
                            };
                        };
                        plan: Record<string, never>;
                        metrics: Record<string, never>;
                    };
                };
            };
        };
    };
    publicKey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The key. */
            200: {
                headers: {
                    "Cache-Control": string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        id: string;
                        /** @constant */
                        algorithm: "ed25519";
                        publicKey: string;
                        pem: string;
                    };
                };
            };
            /** @description No destination has such a key. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Refusal"];
                };
            };
        };
    };
    healthz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        status: "alive";
                    };
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description They can. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        status: "ready";
                    };
                };
            };
            /** @description They cannot, and why. */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        status: "not_ready";
                        reasons: string[];
                    };
                };
            };
        };
    };
    getLedger: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        sources: {
                            [key: string]: {
                                received: number;
                                accepted: number;
                                discarded: {
                                    [key: string]: number;
                                };
                                duplicates: number;
                            };
                        };
                        destinations: {
                            [key: string]: {
                                owed: number;
                                delivered: number;
                                pending: number;
                                dead: {
                                    [key: string]: number;
                                };
                                dropped: {
                                    [key: string]: number;
                                };
                                erased: number;
                                skipped: {
                                    [key: string]: number;
                                };
                                balance: number;
                            };
                        };
                        balanced: boolean;
                        differences: ({
                            difference: number;
                        } & {
                            [key: string]: unknown;
                        })[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getStatus: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        at: string;
                        startedAt: string;
                        /** @description Of Millrace. */
                        version: string;
                        /** @description Of the Node.js that runs it. */
                        nodeVersion: string;
                        /** @description The id of its store: the same for all nodes that share it, and for its copies. */
                        storeId: string;
                        sources: {
                            [key: string]: {
                                received: number;
                                accepted: number;
                                discarded: {
                                    [key: string]: number;
                                };
                                duplicates: number;
                            };
                        };
                        destinations: {
                            [key: string]: {
                                owed: number;
                                delivered: number;
                                pending: number;
                                dead: {
                                    [key: string]: number;
                                };
                                dropped: {
                                    [key: string]: number;
                                };
                                erased: number;
                                skipped: {
                                    [key: string]: number;
                                };
                                balance: number;
                            };
                        };
                        balanced: boolean;
                        differences: ({
                            difference: number;
                        } & {
                            [key: string]: unknown;
                        })[];
                        lanes: {
                            [key: string]: {
                                /** @enum {string} */
                                state: "failed" | "disabled" | "paused" | "failing" | "refusing" | "no_source" | "never_asked" | "healthy";
                                held: number;
                                onDisk: number;
                                retrying: number;
                                oldestPendingAt?: string;
                                oldestKeptUntil?: string;
                                nextDueAt?: string;
                                nextProbeAt?: string;
                                failingSince?: string;
                                refusingSince?: string;
                                failure?: string;
                                lastError?: {
                                    reason: string;
                                    endpoint: string;
                                    at: string;
                                };
                                endpoints: {
                                    endpoint: string;
                                    /** @enum {string} */
                                    state: "healthy" | "failing";
                                    since?: string;
                                    lastError?: {
                                        at: string;
                                        reason: string;
                                        status?: number;
                                        answer?: string;
                                    };
                                }[];
                            };
                        };
                        callsOfNoSource: {
                            discarded: {
                                [key: string]: number;
                            };
                            refused: {
                                [key: string]: number;
                            };
                        };
                        /** @description Values of accepted calls that were changed, by source, since the start. */
                        changedValues: {
                            [key: string]: {
                                counts: {
                                    numbers_as_text?: number;
                                    unreadable_times?: number;
                                    skewed_clocks?: number;
                                    replaced_message_ids?: number;
                                    shortened_addresses?: number;
                                    dropped_addresses?: number;
                                };
                                /** @description The last time that could not be read, as the client wrote it, cut. */
                                unreadableTime?: string;
                            };
                        };
                        /** @description Calls of browsers and phones to sources with `trust: server`, by source, since the start: at least so many. Their write keys are public. */
                        publicCalls: {
                            [key: string]: number;
                        };
                        /** @description Requests answered 429 because a source is over its `rateLimit`, by source, since the start. */
                        rateLimitedRequests: {
                            [key: string]: number;
                        };
                        discards: {
                            source?: string;
                            reason: string;
                            at: string;
                            call: string;
                            cut: boolean;
                        }[];
                        log: {
                            events: number;
                            bytes: number;
                            oldestAt?: string;
                            /** @description What was stored and cannot be read any more; absent while everything can. */
                            damage?: {
                                events: number;
                                deliveries: number;
                                foundAt?: string;
                                others?: string[];
                            };
                        };
                        /** @description The disk of the data folder, in bytes; absent where it cannot be asked. */
                        disk?: {
                            size: number;
                            free: number;
                            /** @description Of the files in the data folder. */
                            used: number;
                            /** @description What `used` is made of; a part that takes no space is absent. */
                            parts: {
                                store?: number;
                                writeAheadLog?: number;
                                profiles?: number;
                                timeline?: number;
                                other?: number;
                            };
                            /** @description `limits.disk`: the oldest events go before `log.bytes` is above it. */
                            limit?: number;
                        };
                        /** @description Commits of the last quarter of an hour: how many, and how long they took from asking for one until it was on stable storage. */
                        commits: {
                            count: number;
                            p50Ms?: number;
                            p99Ms?: number;
                        };
                        /** @description Absent while nothing needs profiles. */
                        profiles?: {
                            /** @enum {string} */
                            state: "live" | "catching_up" | "failed";
                            /** @description Why they stand still, with what to do. */
                            reason?: string;
                            profiles: number;
                            /** @description Of their file. */
                            bytes: number;
                            /** @description Stored events that they have not seen. */
                            behind: number;
                            /** @description Since the oldest of them arrived. */
                            lagMs: number;
                            /** @description Audiences and computed traits that cannot be computed; the others go on. */
                            failed: string[];
                            /** @description Events that do not count, because Millrace failed on them. */
                            skipped: number;
                        };
                        regulations: {
                            /** @description Deletions and suppressions that are not done. */
                            open: number;
                            /** @description When the oldest of them was made. */
                            oldestAt?: string;
                            /** @description A step of one fails and is repeated. */
                            isFailing: boolean;
                            /** @description Ids whose calls are not taken, joined ones included. */
                            suppressed: number;
                        };
                        /** @description The nodes that share the database; absent with the embedded engine. */
                        nodes?: {
                            name: string;
                            /** @constant */
                            isSelf?: true;
                            roles: string[];
                            version: string;
                            since: string;
                            leaseLeftMs: number;
                            jobs: string[];
                        }[];
                        /** @description Nodes that died in the last hour and are not back; none that was stopped. Absent with the embedded engine. */
                        goneNodes?: {
                            name: string;
                            roles: string[];
                            version: string;
                            /** @description When it last renewed its lease. */
                            lastSeenAt: string;
                            /** @description When another node took over its deliveries. */
                            takenOverAt: string;
                            /** @description The name of that node. */
                            takenOverBy: string;
                        }[];
                        /** @description The database that they share. */
                        database?: {
                            /** @description Of PostgreSQL. */
                            version: string;
                            standbys: {
                                name: string;
                                /** @description Commits wait for it. Absent, as the other two, when the user of the database may not see it. */
                                isSynchronous?: boolean;
                                /** @description Of the log, not on its disk yet. */
                                behindBytes?: number;
                                /** @description How long a commit took to reach its disk. */
                                behindMs?: number;
                            }[];
                            problems: {
                                /** @description Events are in danger, or nothing is stored. */
                                isSevere: boolean;
                                found: string;
                                /** @description What to do. */
                                advice: string;
                            }[];
                        };
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getDiscards: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            source?: string;
                            reason: string;
                            at: string;
                            call: string;
                            cut: boolean;
                        }[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["bodies_not_shown.outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    getEventsMessageId: {
        parameters: {
            query?: {
                source?: string;
            };
            header?: never;
            path: {
                messageId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: ({
                            source: string;
                            receivedAt: string;
                            /** @constant */
                            verdict: "accepted";
                            event: {
                                messageId: string;
                            } & {
                                [key: string]: unknown;
                            };
                            deliveries: {
                                id: string;
                                destination: string;
                                /** @enum {string} */
                                state: "pending" | "retrying" | "delivered" | "dead" | "dropped";
                                reason?: string;
                                /** @description What its type says about a dropped one. */
                                note?: string;
                                nextAttemptAt?: string;
                                attempts: {
                                    endpoint: string;
                                    startedAt: string;
                                    latencyMs: number;
                                    /** @enum {string} */
                                    outcome: "accepted" | "retryable" | "refused";
                                    reason: string;
                                    status?: number;
                                    answer?: string;
                                }[];
                            }[];
                            skipped: {
                                destination: string;
                                reason: string;
                            }[];
                        } | {
                            /** @constant */
                            verdict: "damaged";
                            deliveries: {
                                id: string;
                                destination: string;
                                /** @enum {string} */
                                state: "pending" | "retrying" | "delivered" | "dead" | "dropped";
                                reason?: string;
                                /** @description What its type says about a dropped one. */
                                note?: string;
                                nextAttemptAt?: string;
                                attempts: {
                                    endpoint: string;
                                    startedAt: string;
                                    latencyMs: number;
                                    /** @enum {string} */
                                    outcome: "accepted" | "retryable" | "refused";
                                    reason: string;
                                    status?: number;
                                    answer?: string;
                                }[];
                            }[];
                        } | {
                            source?: string;
                            receivedAt: string;
                            /** @constant */
                            verdict: "discarded";
                            reason: string;
                            /** @description Absent for a token without bodies. */
                            call?: string;
                        })[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Of the token. */
                        name: string;
                        /** @enum {string} */
                        role: "metrics" | "viewer" | "editor" | "admin";
                        /** @description Absent for a token without an end. */
                        expiresAt?: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    postSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    token?: string;
                    code?: string;
                };
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    "Set-Cookie": string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Of the token. */
                        name: string;
                        /** @enum {string} */
                        role: "metrics" | "viewer" | "editor" | "admin";
                        /** @description Absent for a token without an end. */
                        expiresAt: string;
                        /** @description What every request with the cookie has to send as `X-Millrace-Console`. Shown this once. */
                        key: string;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["sign_in_code_used.token_expired.token_invalid"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    deleteSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    "Set-Cookie": string;
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getTimeline: {
        parameters: {
            query?: {
                /** @description How long before `to` it begins, such as `15m` or `7d`; in place of `from`. */
                range?: string;
                /** @description An hour before `to` when absent; at most 7 days. */
                from?: string;
                /** @description Now when absent. */
                to?: string;
                /** @description Seconds, a multiple of 10, for at most 1,500 steps. Steps that are not whole minutes have numbers for the last 15 minutes only. When absent, one that makes at most 90 steps. */
                step?: number;
                /** @description Names with commas between them; all when absent. */
                series?: string;
                /** @description One group for each of them; one group for everything when absent. */
                by?: "source" | "destination" | "endpoint";
                /** @description Only calls of this source. */
                source?: string;
                /** @description Only deliveries to this one. */
                destination?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        from: string;
                        to: string;
                        step: number;
                        groups: {
                            source?: string;
                            destination?: string;
                            endpoint?: string;
                            totals: {
                                [key: string]: number | null;
                            };
                            series: {
                                [key: string]: (number | null)[];
                            };
                            now: {
                                [key: string]: number | null;
                            };
                            reasons: {
                                [key: string]: {
                                    [key: string]: number;
                                };
                            };
                        }[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    getDestinationsNameFailures: {
        parameters: {
            query?: {
                /** @description How long before `to` it begins, such as `15m` or `7d`; in place of `from`. */
                range?: string;
                /** @description An hour before `to` when absent; at most 7 days. */
                from?: string;
                /** @description Now when absent. */
                to?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        from: string;
                        to: string;
                        requests: number;
                        data: {
                            endpoint: string;
                            reason: string;
                            count: number;
                            message: string;
                            hint: string;
                        }[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    getTail: {
        parameters: {
            query?: {
                /** @description Only what this source sent. */
                source?: string;
                /** @description Only deliveries to this one. */
                destination?: string;
                /** @description Only events of this type. */
                type?: "identify" | "track" | "page" | "screen" | "group" | "alias";
                /** @description Only deliveries that failed, and calls that were discarded. */
                failed?: "true" | "false";
                /** @description So many calls a second, evenly chosen, with their deliveries, and as many failures; `passed` counts the others. Everything when absent. */
                max?: number;
                /** @description Events whole, and not only what names them. */
                body?: "true" | "false";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Server-sent events. `x-event-data` is the data of each, which is JSON. */
            200: {
                headers: {
                    /** @description For proxies. */
                    "X-Accel-Buffering": "no";
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["bodies_not_shown.outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["too_many_viewers"];
        };
    };
    getSources: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            name: string;
                            /** @description For a viewer only how each ends, such as …1234: whoever has one sends events as the source. */
                            writeKeys: string[];
                            enabled: boolean;
                            /** @enum {string} */
                            mode: "standard" | "strict";
                            /** @enum {string} */
                            whenDisabled: "refuse" | "discard";
                            dedupeWindow?: string;
                            rateLimit?: number;
                            /** @description 0: no limit. Absent: 200 where trust is client, and no limit where it is server. */
                            rateLimitPerAddress?: number;
                            /**
                             * @description What becomes of the address of a caller: docs/reference/receiving.md, "The address of the client".
                             * @enum {string}
                             */
                            ip: "keep" | "shorten" | "drop" | "direct";
                            /**
                             * @description Whether its calls may join two users: server, or client for one whose write keys are public. docs/reference/identities.md.
                             * @enum {string}
                             */
                            trust: "server" | "client";
                            /**
                             * @description Its events are stored and found, and neither delivered nor part of profiles.
                             * @constant
                             */
                            shadow?: true;
                            /** @description The projectId of its events where a destination has the format segment. Absent: its name. */
                            projectId?: string;
                            /**
                             * @description A call that says nothing of consent consents to nothing. Absent: nothing is withheld of it.
                             * @constant
                             */
                            consent?: "required";
                            /** @description A path of the browser library with its first write key: docs/reference/receiving.md, "Pages with a snippet". */
                            scriptPath?: string;
                            /** @description Forwarded calls are taken only with a signature by it; for a viewer only how it ends. */
                            forwarded?: {
                                sharedSecret?: string;
                            };
                            /**
                             * @description Made by the server, and not to be changed.
                             * @constant
                             */
                            system?: true;
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    postSources: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description Unique among the sources. Destinations refer to it. */
                    name: string;
                    /** @description What clients of this source sign in with. Unique over all sources. */
                    writeKeys?: string[];
                    /**
                     * @description A disabled source accepts nothing; see whenDisabled.
                     * @default true
                     */
                    enabled?: boolean;
                    /**
                     * @description standard keeps the valid events of a batch; strict refuses a batch with an invalid event.
                     * @default standard
                     * @enum {string}
                     */
                    mode?: "standard" | "strict";
                    /**
                     * @description While disabled: refuse answers 401; discard answers 200 and counts.
                     * @default refuse
                     * @enum {string}
                     */
                    whenDisabled?: "refuse" | "discard";
                    /** @description How long a second event with the same messageId is a duplicate; 24h when absent. */
                    dedupeWindow?: string;
                    /** @description Calls a second; beyond it clients are asked to wait (429). Without it there is no limit. */
                    rateLimit?: number;
                    /** @description Calls a second from one public address; 0 for no limit. 200 when absent for a source whose trust is client, and no limit for one of server. */
                    rateLimitPerAddress?: number;
                    /**
                     * @description context.ip: keep fills it in for calls straight from a browser or a phone; shorten keeps only the beginning of every address; drop keeps none; direct fills it in for calls with context.direct alone. Absent: as it is, keep for a new source.
                     * @enum {string}
                     */
                    ip?: "keep" | "shorten" | "drop" | "direct";
                    /**
                     * @description Its events are stored and found, and neither delivered nor part of profiles: millrace compare compares them with those of another source. Decided when the source is made.
                     * @constant
                     */
                    shadow?: true;
                    /** @description The projectId of its events where a destination has the format segment. Its name when absent. */
                    projectId?: string;
                    /**
                     * @description Who can have the write keys: server for programs of yours alone; client for a website or an app, whose keys everybody can read. Only calls of a server source join two users. Absent: as it is, client for a new source.
                     * @enum {string}
                     */
                    trust?: "server" | "client";
                    /**
                     * @description required: a call that says nothing of consent consents to nothing, so that destinations with consent categories do not get it. Absent: they do.
                     * @constant
                     */
                    consent?: "required";
                    /**
                     * @description A path by which pages load the browser library with the first write key of this source, beside /analytics.js/v1/…: the one that a domain of your own has had.
                     * @example /acme/shop.js
                     */
                    scriptPath?: string;
                    /** @description How calls are checked that another service passes on to /v1/forwarded; by the key alone when absent. */
                    forwarded?: {
                        /** @description Forwarded calls are taken only with an X-Signature made with this: the HMAC with SHA-1 of the body, or of the first call of a list. */
                        sharedSecret?: string;
                    };
                };
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @description For a viewer only how each ends, such as …1234: whoever has one sends events as the source. */
                        writeKeys: string[];
                        enabled: boolean;
                        /** @enum {string} */
                        mode: "standard" | "strict";
                        /** @enum {string} */
                        whenDisabled: "refuse" | "discard";
                        dedupeWindow?: string;
                        rateLimit?: number;
                        /** @description 0: no limit. Absent: 200 where trust is client, and no limit where it is server. */
                        rateLimitPerAddress?: number;
                        /**
                         * @description What becomes of the address of a caller: docs/reference/receiving.md, "The address of the client".
                         * @enum {string}
                         */
                        ip: "keep" | "shorten" | "drop" | "direct";
                        /**
                         * @description Whether its calls may join two users: server, or client for one whose write keys are public. docs/reference/identities.md.
                         * @enum {string}
                         */
                        trust: "server" | "client";
                        /**
                         * @description Its events are stored and found, and neither delivered nor part of profiles.
                         * @constant
                         */
                        shadow?: true;
                        /** @description The projectId of its events where a destination has the format segment. Absent: its name. */
                        projectId?: string;
                        /**
                         * @description A call that says nothing of consent consents to nothing. Absent: nothing is withheld of it.
                         * @constant
                         */
                        consent?: "required";
                        /** @description A path of the browser library with its first write key: docs/reference/receiving.md, "Pages with a snippet". */
                        scriptPath?: string;
                        /** @description Forwarded calls are taken only with a signature by it; for a viewer only how it ends. */
                        forwarded?: {
                            sharedSecret?: string;
                        };
                        /**
                         * @description Made by the server, and not to be changed.
                         * @constant
                         */
                        system?: true;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            409: components["responses"]["name_taken"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getSourcesName: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @description For a viewer only how each ends, such as …1234: whoever has one sends events as the source. */
                        writeKeys: string[];
                        enabled: boolean;
                        /** @enum {string} */
                        mode: "standard" | "strict";
                        /** @enum {string} */
                        whenDisabled: "refuse" | "discard";
                        dedupeWindow?: string;
                        rateLimit?: number;
                        /** @description 0: no limit. Absent: 200 where trust is client, and no limit where it is server. */
                        rateLimitPerAddress?: number;
                        /**
                         * @description What becomes of the address of a caller: docs/reference/receiving.md, "The address of the client".
                         * @enum {string}
                         */
                        ip: "keep" | "shorten" | "drop" | "direct";
                        /**
                         * @description Whether its calls may join two users: server, or client for one whose write keys are public. docs/reference/identities.md.
                         * @enum {string}
                         */
                        trust: "server" | "client";
                        /**
                         * @description Its events are stored and found, and neither delivered nor part of profiles.
                         * @constant
                         */
                        shadow?: true;
                        /** @description The projectId of its events where a destination has the format segment. Absent: its name. */
                        projectId?: string;
                        /**
                         * @description A call that says nothing of consent consents to nothing. Absent: nothing is withheld of it.
                         * @constant
                         */
                        consent?: "required";
                        /** @description A path of the browser library with its first write key: docs/reference/receiving.md, "Pages with a snippet". */
                        scriptPath?: string;
                        /** @description Forwarded calls are taken only with a signature by it; for a viewer only how it ends. */
                        forwarded?: {
                            sharedSecret?: string;
                        };
                        /**
                         * @description Made by the server, and not to be changed.
                         * @constant
                         */
                        system?: true;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    deleteSourcesName: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the record was read with: when it has changed since, nothing is done (412). */
                "If-Match"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            409: components["responses"]["system_record"];
            412: components["responses"]["changed_meanwhile"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    patchSourcesName: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the record was read with: when it has changed since, nothing is done (412). */
                "If-Match"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    [key: string]: unknown;
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @description For a viewer only how each ends, such as …1234: whoever has one sends events as the source. */
                        writeKeys: string[];
                        enabled: boolean;
                        /** @enum {string} */
                        mode: "standard" | "strict";
                        /** @enum {string} */
                        whenDisabled: "refuse" | "discard";
                        dedupeWindow?: string;
                        rateLimit?: number;
                        /** @description 0: no limit. Absent: 200 where trust is client, and no limit where it is server. */
                        rateLimitPerAddress?: number;
                        /**
                         * @description What becomes of the address of a caller: docs/reference/receiving.md, "The address of the client".
                         * @enum {string}
                         */
                        ip: "keep" | "shorten" | "drop" | "direct";
                        /**
                         * @description Whether its calls may join two users: server, or client for one whose write keys are public. docs/reference/identities.md.
                         * @enum {string}
                         */
                        trust: "server" | "client";
                        /**
                         * @description Its events are stored and found, and neither delivered nor part of profiles.
                         * @constant
                         */
                        shadow?: true;
                        /** @description The projectId of its events where a destination has the format segment. Absent: its name. */
                        projectId?: string;
                        /**
                         * @description A call that says nothing of consent consents to nothing. Absent: nothing is withheld of it.
                         * @constant
                         */
                        consent?: "required";
                        /** @description A path of the browser library with its first write key: docs/reference/receiving.md, "Pages with a snippet". */
                        scriptPath?: string;
                        /** @description Forwarded calls are taken only with a signature by it; for a viewer only how it ends. */
                        forwarded?: {
                            sharedSecret?: string;
                        };
                        /**
                         * @description Made by the server, and not to be changed.
                         * @constant
                         */
                        system?: true;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            409: components["responses"]["system_record"];
            412: components["responses"]["changed_meanwhile"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getDestinations: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: ({
                            name: string;
                            /** @constant */
                            type: "webhooks";
                            sources: string[];
                            enabled: boolean;
                            /** @constant */
                            paused?: true;
                            settings: {
                                endpoints: {
                                    url: string;
                                    headers: {
                                        [key: string]: string | {
                                            /** @constant */
                                            set: true;
                                            hint?: string;
                                        };
                                    };
                                }[];
                                /** @description A secret: that there is one, and its last characters where it is long enough. */
                                sharedSecret?: {
                                    /** @constant */
                                    set: true;
                                    hint?: string;
                                };
                                /** @description A secret: that there is one, and its last characters where it is long enough. */
                                nextSharedSecret?: {
                                    /** @constant */
                                    set: true;
                                    hint?: string;
                                };
                                signingSecrets?: {
                                    /** @constant */
                                    set: true;
                                    hint?: string;
                                }[];
                                publicSignature?: boolean;
                                /** @enum {string} */
                                format: "documented" | "canonical" | "segment";
                                userAgent?: string;
                                /** @enum {string} */
                                success: "any" | "each";
                            } & {
                                [key: string]: unknown;
                            };
                        } | {
                            name: string;
                            /** @constant */
                            type: "segment";
                            sources: string[];
                            enabled: boolean;
                            /** @constant */
                            paused?: true;
                            settings: {
                                host: string;
                                /** @description A secret: that there is one, and its last characters where it is long enough. */
                                writeKey: {
                                    /** @constant */
                                    set: true;
                                    hint?: string;
                                };
                                /** @enum {string} */
                                success: "any" | "each";
                            };
                        })[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    postDestinations: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description Unique among the destinations. */
                    name: string;
                    /**
                     * @description The kind of destination.
                     * @constant
                     */
                    type: "webhooks";
                    /** @description Names of the sources it takes events from. */
                    sources: string[];
                    /**
                     * @description While false, events that arrive are skipped and never sent; what is owed already waits.
                     * @default true
                     */
                    enabled?: boolean;
                    /** @description While true, everything waits, what arrives too, for as long as retention.events keeps it. Absent: as it is, by millrace pause and resume. */
                    paused?: boolean;
                    /** @description Settings of a destination of type webhooks. */
                    settings: {
                        /** @description 1 to 5 URLs. Every delivery goes to all of them at once. */
                        endpoints: {
                            /** @description Where the requests go: an absolute http or https URL without credentials or fragment. */
                            url: string;
                            /**
                             * @description Static headers of every request to this URL, at most 5. Reserved names are refused.
                             * @default {}
                             * @example {
                             *       "X-Team": "growth"
                             *     }
                             */
                            headers?: {
                                [key: string]: string;
                            };
                        }[];
                        /** @description Signs every request (X-Signature, hexadecimal HMAC-SHA1 of the body) when it is set. */
                        sharedSecret?: string;
                        /** @description The secret that will take the place of sharedSecret: requests carry a second signature with it (X-Signature-Next) while receivers change over. */
                        nextSharedSecret?: string;
                        /** @description Secrets of the Standard Webhooks scheme (webhook-timestamp, webhook-signature), beside sharedSecret. Two while one replaces the other: every request then carries a signature of each. */
                        signingSecrets?: string[];
                        /** @description Adds a Standard Webhooks signature (v1a, ed25519) that receivers verify with a public key of this destination instead of a secret. False when absent. */
                        publicSignature?: boolean;
                        /**
                         * @description The body: the documented fields of the type; the whole event as received after normalisation; or the whole event in the shape of the classic webhooks, with version, channel and projectId.
                         * @default documented
                         * @enum {string}
                         */
                        format?: "documented" | "canonical" | "segment";
                        /**
                         * @description The User-Agent of its requests. Millrace/1.0 when absent.
                         * @example Segment.io/1.0
                         */
                        userAgent?: string;
                        /**
                         * @description any: one accepted request ends the delivery. each: every URL is a delivery of its own.
                         * @default any
                         * @enum {string}
                         */
                        success?: "any" | "each";
                        /** @description Which events it gets. The others are skipped, with the reason filtered. */
                        filter?: {
                            /** @description Only calls of these types. All types when absent. */
                            types?: ("identify" | "track" | "page" | "screen" | "group" | "alias")[];
                            /** @description Of track calls only those of these events, such as Order Placed; a * at the end stands for any rest. Case matters. */
                            events?: string[];
                        };
                        /** @description Names by which integrations objects of calls know it after its own, the first that is there decides; an empty list for none. Default: Webhooks, Webhooks (Actions), Webhook, Extensible Webhook. */
                        integrationNames?: string[];
                        /** @description Ids of consent categories: it gets the events of visitors who have consented to all of them, and of calls that say nothing of consent. Absent: whatever they say. */
                        consent?: string[];
                        /** @description The form in which it hears of audiences and computed traits. */
                        computations?: {
                            /**
                             * @description The calls that it gets: an identify, a track, or one of each. When absent identify.
                             * @enum {string}
                             */
                            as?: "identify" | "track" | "both";
                            /** @description The namespace and space_id in context.personas. When absent it has neither. */
                            space?: string;
                            /** @description The name of this track event. When absent Audience Entered. */
                            enteredEvent?: string;
                            /** @description The name of this track event. When absent Audience Exited. */
                            exitedEvent?: string;
                            /** @description The name of this track event. When absent Trait Computed. */
                            traitEvent?: string;
                            /** @description One event for each e-mail address of the user, which it has. When absent false. */
                            email?: boolean;
                            /** @description Traits of the user that go with a membership or a value. */
                            traits?: string[];
                        };
                        /** @description The most requests a second that each URL gets, retries among them. Unlimited when absent. */
                        rateLimit?: number;
                        /** @description The most requests that each URL has to answer at once. When absent it adapts, up to 256. */
                        concurrency?: number;
                    };
                } | {
                    /** @description Unique among the destinations. */
                    name: string;
                    /**
                     * @description The kind of destination.
                     * @constant
                     */
                    type: "segment";
                    /** @description Names of the sources it takes events from. */
                    sources: string[];
                    /**
                     * @description While false, events that arrive are skipped and never sent; what is owed already waits.
                     * @default true
                     */
                    enabled?: boolean;
                    /** @description While true, everything waits, what arrives too, for as long as retention.events keeps it. Absent: as it is, by millrace pause and resume. */
                    paused?: boolean;
                    /** @description Settings of a destination of type segment. */
                    settings: {
                        /**
                         * Host
                         * @description Where the calls are passed on to; /v1/batch is appended.
                         * @example https://api.segment.io
                         * @example https://events.eu1.segmentapis.com
                         */
                        host: string;
                        /**
                         * Write key
                         * @description The write key of the source there that is to have the calls.
                         */
                        writeKey: string;
                        /**
                         * @description any: one accepted request ends the delivery. each: every URL is a delivery of its own.
                         * @default any
                         * @enum {string}
                         */
                        success?: "any" | "each";
                        /** @description Which events it gets. The others are skipped, with the reason filtered. */
                        filter?: {
                            /** @description Only calls of these types. All types when absent. */
                            types?: ("identify" | "track" | "page" | "screen" | "group" | "alias")[];
                            /** @description Of track calls only those of these events, such as Order Placed; a * at the end stands for any rest. Case matters. */
                            events?: string[];
                        };
                        /** @description Names by which integrations objects of calls know it after its own, the first that is there decides; an empty list for none. Default: Webhooks, Webhooks (Actions), Webhook, Extensible Webhook. */
                        integrationNames?: string[];
                        /** @description Ids of consent categories: it gets the events of visitors who have consented to all of them, and of calls that say nothing of consent. Absent: whatever they say. */
                        consent?: string[];
                        /** @description The form in which it hears of audiences and computed traits. */
                        computations?: {
                            /**
                             * @description The calls that it gets: an identify, a track, or one of each. When absent identify.
                             * @enum {string}
                             */
                            as?: "identify" | "track" | "both";
                            /** @description The namespace and space_id in context.personas. When absent it has neither. */
                            space?: string;
                            /** @description The name of this track event. When absent Audience Entered. */
                            enteredEvent?: string;
                            /** @description The name of this track event. When absent Audience Exited. */
                            exitedEvent?: string;
                            /** @description The name of this track event. When absent Trait Computed. */
                            traitEvent?: string;
                            /** @description One event for each e-mail address of the user, which it has. When absent false. */
                            email?: boolean;
                            /** @description Traits of the user that go with a membership or a value. */
                            traits?: string[];
                        };
                        /** @description The most requests a second that each URL gets, retries among them. Unlimited when absent. */
                        rateLimit?: number;
                        /** @description The most requests that each URL has to answer at once. When absent it adapts, up to 256. */
                        concurrency?: number;
                    };
                };
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @constant */
                        type: "webhooks";
                        sources: string[];
                        enabled: boolean;
                        /** @constant */
                        paused?: true;
                        settings: {
                            endpoints: {
                                url: string;
                                headers: {
                                    [key: string]: string | {
                                        /** @constant */
                                        set: true;
                                        hint?: string;
                                    };
                                };
                            }[];
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            sharedSecret?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            nextSharedSecret?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            signingSecrets?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            }[];
                            publicSignature?: boolean;
                            /** @enum {string} */
                            format: "documented" | "canonical" | "segment";
                            userAgent?: string;
                            /** @enum {string} */
                            success: "any" | "each";
                        } & {
                            [key: string]: unknown;
                        };
                        /** @description What was done all the same, such as a name of an endpoint that does not resolve yet. */
                        warnings?: {
                            path: string;
                            message: string;
                        }[];
                    } | {
                        name: string;
                        /** @constant */
                        type: "segment";
                        sources: string[];
                        enabled: boolean;
                        /** @constant */
                        paused?: true;
                        settings: {
                            host: string;
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            writeKey: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            /** @enum {string} */
                            success: "any" | "each";
                        };
                        /** @description What was done all the same, such as a name of an endpoint that does not resolve yet. */
                        warnings?: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            409: components["responses"]["name_taken"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getDestinationsName: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @constant */
                        type: "webhooks";
                        sources: string[];
                        enabled: boolean;
                        /** @constant */
                        paused?: true;
                        settings: {
                            endpoints: {
                                url: string;
                                headers: {
                                    [key: string]: string | {
                                        /** @constant */
                                        set: true;
                                        hint?: string;
                                    };
                                };
                            }[];
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            sharedSecret?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            nextSharedSecret?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            signingSecrets?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            }[];
                            publicSignature?: boolean;
                            /** @enum {string} */
                            format: "documented" | "canonical" | "segment";
                            userAgent?: string;
                            /** @enum {string} */
                            success: "any" | "each";
                        } & {
                            [key: string]: unknown;
                        };
                    } | {
                        name: string;
                        /** @constant */
                        type: "segment";
                        sources: string[];
                        enabled: boolean;
                        /** @constant */
                        paused?: true;
                        settings: {
                            host: string;
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            writeKey: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            /** @enum {string} */
                            success: "any" | "each";
                        };
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    deleteDestinationsName: {
        parameters: {
            query?: {
                confirm?: "true" | "false" | "";
            };
            header?: {
                /** @description The ETag that the record was read with: when it has changed since, nothing is done (412). */
                "If-Match"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            409: components["responses"]["confirmation_needed"];
            412: components["responses"]["changed_meanwhile"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    patchDestinationsName: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the record was read with: when it has changed since, nothing is done (412). */
                "If-Match"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    [key: string]: unknown;
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @constant */
                        type: "webhooks";
                        sources: string[];
                        enabled: boolean;
                        /** @constant */
                        paused?: true;
                        settings: {
                            endpoints: {
                                url: string;
                                headers: {
                                    [key: string]: string | {
                                        /** @constant */
                                        set: true;
                                        hint?: string;
                                    };
                                };
                            }[];
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            sharedSecret?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            nextSharedSecret?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            signingSecrets?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            }[];
                            publicSignature?: boolean;
                            /** @enum {string} */
                            format: "documented" | "canonical" | "segment";
                            userAgent?: string;
                            /** @enum {string} */
                            success: "any" | "each";
                        } & {
                            [key: string]: unknown;
                        };
                        /** @description What was done all the same, such as a name of an endpoint that does not resolve yet. */
                        warnings?: {
                            path: string;
                            message: string;
                        }[];
                    } | {
                        name: string;
                        /** @constant */
                        type: "segment";
                        sources: string[];
                        enabled: boolean;
                        /** @constant */
                        paused?: true;
                        settings: {
                            host: string;
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            writeKey: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            /** @enum {string} */
                            success: "any" | "each";
                        };
                        /** @description What was done all the same, such as a name of an endpoint that does not resolve yet. */
                        warnings?: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            412: components["responses"]["changed_meanwhile"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getDestinationsNameStatus: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @enum {string} */
                        state: "failed" | "disabled" | "paused" | "failing" | "refusing" | "no_source" | "never_asked" | "healthy";
                        pending: number;
                        retrying: number;
                        dead: number;
                        dropped: number;
                        delivered: number;
                        oldestPendingAt?: string;
                        oldestKeptUntil?: string;
                        nextAttemptAt?: string;
                        failingSince?: string;
                        refusingSince?: string;
                        failure?: string;
                        lastError?: {
                            reason: string;
                            endpoint: string;
                            at: string;
                        };
                        publicKey?: {
                            id: string;
                            /** @constant */
                            algorithm: "ed25519";
                            publicKey: string;
                            pem: string;
                            path: string;
                        };
                        endpoints: {
                            endpoint: string;
                            /** @enum {string} */
                            state: "healthy" | "failing";
                            since?: string;
                            lastError?: {
                                at: string;
                                reason: string;
                                status?: number;
                                answer?: string;
                            };
                            lastAcceptedAt?: string;
                            attempts: {
                                [key: string]: number;
                            };
                            history: {
                                at: string;
                                /** @enum {string} */
                                state: "healthy" | "failing";
                                reason?: string;
                                flaps?: number;
                            }[];
                        }[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    postDestinationsNamePause: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        enabled: boolean;
                        paused: boolean;
                        pending: number;
                        oldestPendingAt?: string;
                        oldestKeptUntil?: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    postDestinationsNameResume: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        enabled: boolean;
                        paused: boolean;
                        pending: number;
                        oldestPendingAt?: string;
                        oldestKeptUntil?: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    postDestinationsNameDisable: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        enabled: boolean;
                        paused: boolean;
                        pending: number;
                        oldestPendingAt?: string;
                        oldestKeptUntil?: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    postDestinationsNameEnable: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        enabled: boolean;
                        paused: boolean;
                        pending: number;
                        oldestPendingAt?: string;
                        oldestKeptUntil?: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    postDestinationsNameTest: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /**
                     * @default track
                     * @enum {string}
                     */
                    type?: "identify" | "track" | "page" | "screen" | "group" | "alias";
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            request: {
                                /** @constant */
                                method: "POST";
                                url: string;
                                headers: {
                                    [key: string]: string | {
                                        /** @constant */
                                        set: true;
                                        hint?: string;
                                    };
                                };
                                body: string;
                            };
                            startedAt: string;
                            latencyMs: number;
                            /** @enum {string} */
                            outcome: "accepted" | "retryable" | "refused" | "dropped";
                            reason: string;
                            status?: number;
                            answer?: string;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    getEvents: {
        parameters: {
            query?: {
                /** @description Name of the source. */
                source?: string;
                type?: "identify" | "track" | "page" | "screen" | "group" | "alias";
                userId?: string;
                anonymousId?: string;
                /** @description A userId as JSON text, in its quotes. */
                userIdJson?: string;
                /** @description An anonymousId as JSON text, in its quotes. */
                anonymousIdJson?: string;
                /** @description Has this messageId. */
                messageId?: string;
                /** @description Name of what was tracked, or of the page or screen. A `*` at the end stands for any rest. */
                event?: string;
                /** @description Arrived at this time or later. */
                from?: string;
                /** @description Arrived before this time. */
                to?: string;
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: ({
                            source: string;
                            receivedAt: string;
                            /** @constant */
                            verdict: "accepted";
                            event: {
                                messageId: string;
                            } & {
                                [key: string]: unknown;
                            };
                            deliveries: {
                                id: string;
                                destination: string;
                                /** @enum {string} */
                                state: "pending" | "retrying" | "delivered" | "dead" | "dropped";
                                reason?: string;
                                /** @description What its type says about a dropped one. */
                                note?: string;
                                nextAttemptAt?: string;
                                attempts: {
                                    endpoint: string;
                                    startedAt: string;
                                    latencyMs: number;
                                    /** @enum {string} */
                                    outcome: "accepted" | "retryable" | "refused";
                                    reason: string;
                                    status?: number;
                                    answer?: string;
                                }[];
                            }[];
                            skipped: {
                                destination: string;
                                reason: string;
                            }[];
                        } | {
                            /** @constant */
                            verdict: "damaged";
                            deliveries: {
                                id: string;
                                destination: string;
                                /** @enum {string} */
                                state: "pending" | "retrying" | "delivered" | "dead" | "dropped";
                                reason?: string;
                                /** @description What its type says about a dropped one. */
                                note?: string;
                                nextAttemptAt?: string;
                                attempts: {
                                    endpoint: string;
                                    startedAt: string;
                                    latencyMs: number;
                                    /** @enum {string} */
                                    outcome: "accepted" | "retryable" | "refused";
                                    reason: string;
                                    status?: number;
                                    answer?: string;
                                }[];
                            }[];
                        } | {
                            source?: string;
                            receivedAt: string;
                            /** @constant */
                            verdict: "discarded";
                            reason: string;
                            /** @description Absent for a token without bodies. */
                            call?: string;
                        })[];
                        next: string | null;
                        /** @description Events that were looked at for this page, found or not. */
                        searched: number;
                        /** @description All that arrived later was looked at; where `next` is null, everything was. */
                        searchedTo?: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getCompare: {
        parameters: {
            query: {
                /** @description The name of a source. */
                a: string;
                /** @description The name of another one. What the rules say of the other service holds for the shadow of the two, or for `a`. */
                b: string;
                /** @description Calls that arrived at this time or later. */
                from: string;
                /** @description Calls that arrived before this time. Absent: now. */
                to?: string;
                /** @description Rules that are switched off, with commas between them: transport, nulls, timeForms, timestamp, addresses, numbers, messageIds, waiting, kinds. */
                without?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description The source of the service that is to be replaced. */
                        there: string;
                        here: string;
                        from: string;
                        to: string;
                        /** @description Calls that both have, the same but for what the rules allow. */
                        equal: number;
                        different: number;
                        /** @description Calls that one side does not have. */
                        missing: {
                            there: number;
                            here: number;
                        };
                        /** @description Calls of one side that the other may still get. */
                        waiting: number;
                        /** @description Counted apart: events of audiences and traits; calls of users who are suppressed here; calls to which a tracking plan has added something there. */
                        apart: {
                            computed: number;
                            suppressed: number;
                            protocols: number;
                        };
                        /** @description Calls that are damaged, or were erased meanwhile. */
                        unreadable: number;
                        differences: {
                            event: string;
                            field: string;
                            count: number;
                            examples: {
                                messageId: string;
                                /** @description Null where the field is not there. */
                                there: unknown;
                                /** @description Null where the field is not there. */
                                here: unknown;
                            }[];
                        }[];
                        absences: {
                            event: string;
                            /** @enum {string} */
                            missing: "there" | "here";
                            count: number;
                            messageIds: string[];
                        }[];
                        /** @description There are more groups than are shown, the rarest of all. */
                        truncated: boolean;
                        rules: {
                            name: string;
                            about: string;
                            on: boolean;
                        }[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["bodies_not_shown.outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getDeliveries: {
        parameters: {
            query?: {
                /** @description Name of the destination. */
                destination?: string;
                state?: "pending" | "retrying" | "delivered" | "dead" | "dropped";
                /** @description Why it is dead or dropped (`state=dead`, `state=dropped`), or what its last request came to (`state=retrying`); such as `status_410`. */
                reason?: string;
                /** @description Name of the source. */
                source?: string;
                type?: "identify" | "track" | "page" | "screen" | "group" | "alias";
                userId?: string;
                anonymousId?: string;
                /** @description The event arrived at this time or later; with `state=dead` or `dropped`: given up at this time or later. */
                from?: string;
                /** @description The event arrived before this time; with `state=dead` or `dropped`: given up before this time. */
                to?: string;
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @description As `redeliveries` takes it. */
                            id: string;
                            destination: string;
                            /** @enum {string} */
                            state: "pending" | "retrying" | "delivered" | "dead" | "dropped";
                            reason?: string;
                            /** @description What its type says about a dropped one. */
                            note?: string;
                            diedAt?: string;
                            droppedAt?: string;
                            nextAttemptAt?: string;
                            endpoint?: string;
                            messageId?: string;
                            type?: string;
                            userId?: string;
                            anonymousId?: string;
                            previousId?: string;
                            groupId?: string;
                            event?: string;
                            name?: string;
                            source?: string;
                            receivedAt?: string;
                            attempts: {
                                endpoint: string;
                                startedAt: string;
                                latencyMs: number;
                                /** @enum {string} */
                                outcome: "accepted" | "retryable" | "refused";
                                reason: string;
                                status?: number;
                                answer?: string;
                            }[];
                        }[];
                        next: string | null;
                        /** @description Events that were looked at for this page, found or not. */
                        searched: number;
                        /** @description All that arrived later was looked at; where `next` is null, everything was. */
                        searchedTo?: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getDeliveriesIdRequests: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @constant */
                            method: "POST";
                            url: string;
                            headers: {
                                [key: string]: string | {
                                    /** @constant */
                                    set: true;
                                    hint?: string;
                                };
                            };
                            body: string;
                        }[];
                        /** @description When the destination was changed last: a request before that may have been another. */
                        settingsChangedAt?: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["bodies_not_shown.outside_token"];
            404: components["responses"]["unknown_delivery"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getProfilesUserId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                userId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Absent while only other ids are known. */
                        userId?: string;
                        /** @description Joined to `userId` by an alias. */
                        formerUserIds: string[];
                        anonymousIds: string[];
                        externalIds: {
                            [key: string]: string[];
                        };
                        traits: {
                            [key: string]: unknown;
                        };
                        /** @description By key. */
                        computedTraits: {
                            [key: string]: unknown;
                        };
                        audiences: string[];
                        groups: string[];
                        /** @description Categories that the user has consented to, by the newest event that has said anything of it; absent where none has. */
                        consent?: {
                            categories: string[];
                            at: string;
                        };
                        /** @description How many traits, groups and consent categories calls have named that the profile does not keep: too long, too many, or gone to make room for others. */
                        leftOut: number;
                        /** @description Names of the sources that saw the user. */
                        sources: string[];
                        firstSeenAt: string;
                        lastSeenAt: string;
                        /** @description The last hundred, the newest first. */
                        merges: {
                            /**
                             * @description `identify`: a call named the user and this anonymous id; `alias`: an alias named it as previousId; `external`: both had this external id.
                             * @enum {string}
                             */
                            rule: "identify" | "alias" | "external";
                            /** @description The id that joined them: of kind `user`, `anonymous`, or named as its trait. */
                            identity: {
                                kind: string;
                                value: string;
                            };
                            messageId: string;
                            at: string;
                        }[];
                        /** @description Merges that were refused: how many, and some of them, the newest first. */
                        refusedMerges: {
                            count: number;
                            samples: {
                                /** @enum {string} */
                                rule: "identify" | "alias" | "external";
                                /**
                                 * @description `belongs_to_another_user`: two users do not become one by this id; `alias_off`: `identities.alias` is `refuse`; `too_many_ids`: the profile would have more than it may; `unproven`: nothing but the word of a client source speaks for it; `split`: the two are kept apart.
                                 * @enum {string}
                                 */
                                reason: "belongs_to_another_user" | "alias_off" | "too_many_ids" | "unproven" | "split";
                                source: string;
                                at: string;
                                /** @description The id that would have joined; absent where the event is not stored any more. */
                                identity?: {
                                    kind: string;
                                    value: string;
                                };
                                messageId?: string;
                            }[];
                        };
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["bodies_not_shown.outside_token"];
            404: components["responses"]["unknown_user"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getProfiles: {
        parameters: {
            query?: {
                userId?: string;
                /** @description A userId as JSON text, in its quotes. */
                userIdJson?: string;
                anonymousId?: string;
                /** @description An anonymousId as JSON text, in its quotes. */
                anonymousIdJson?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Absent while only other ids are known. */
                        userId?: string;
                        /** @description Joined to `userId` by an alias. */
                        formerUserIds: string[];
                        anonymousIds: string[];
                        externalIds: {
                            [key: string]: string[];
                        };
                        traits: {
                            [key: string]: unknown;
                        };
                        /** @description By key. */
                        computedTraits: {
                            [key: string]: unknown;
                        };
                        audiences: string[];
                        groups: string[];
                        /** @description Categories that the user has consented to, by the newest event that has said anything of it; absent where none has. */
                        consent?: {
                            categories: string[];
                            at: string;
                        };
                        /** @description How many traits, groups and consent categories calls have named that the profile does not keep: too long, too many, or gone to make room for others. */
                        leftOut: number;
                        /** @description Names of the sources that saw the user. */
                        sources: string[];
                        firstSeenAt: string;
                        lastSeenAt: string;
                        /** @description The last hundred, the newest first. */
                        merges: {
                            /**
                             * @description `identify`: a call named the user and this anonymous id; `alias`: an alias named it as previousId; `external`: both had this external id.
                             * @enum {string}
                             */
                            rule: "identify" | "alias" | "external";
                            /** @description The id that joined them: of kind `user`, `anonymous`, or named as its trait. */
                            identity: {
                                kind: string;
                                value: string;
                            };
                            messageId: string;
                            at: string;
                        }[];
                        /** @description Merges that were refused: how many, and some of them, the newest first. */
                        refusedMerges: {
                            count: number;
                            samples: {
                                /** @enum {string} */
                                rule: "identify" | "alias" | "external";
                                /**
                                 * @description `belongs_to_another_user`: two users do not become one by this id; `alias_off`: `identities.alias` is `refuse`; `too_many_ids`: the profile would have more than it may; `unproven`: nothing but the word of a client source speaks for it; `split`: the two are kept apart.
                                 * @enum {string}
                                 */
                                reason: "belongs_to_another_user" | "alias_off" | "too_many_ids" | "unproven" | "split";
                                source: string;
                                at: string;
                                /** @description The id that would have joined; absent where the event is not stored any more. */
                                identity?: {
                                    kind: string;
                                    value: string;
                                };
                                messageId?: string;
                            }[];
                        };
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["bodies_not_shown.outside_token"];
            404: components["responses"]["unknown_user"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    postProfilesRebuild: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /**
                     * @description Only says what would be lost.
                     * @default false
                     */
                    dryRun?: boolean;
                    /**
                     * @description Goes on although something is lost.
                     * @default false
                     */
                    confirm?: boolean;
                };
            };
        };
        responses: {
            /** @description OK: what would be done, asked for with `dryRun` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Profiles there are now. */
                        profiles: number;
                        /** @description Stored events that are applied again. */
                        events: number;
                        /** @description When the oldest of them arrived. */
                        eventsSince?: string;
                        /** @description Profiles with events from before that: what these said is lost by a rebuild. */
                        poorer: number;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.role_too_low"];
            409: components["responses"]["rebuild_loses"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getMerges: {
        parameters: {
            query?: {
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            userId: string;
                            formerUserId: string;
                            /** @description What joined them, as far as the profile remembers. */
                            merge: {
                                /**
                                 * @description `identify`: a call named the user and this anonymous id; `alias`: an alias named it as previousId; `external`: both had this external id.
                                 * @enum {string}
                                 */
                                rule: "identify" | "alias" | "external";
                                /** @description The id that joined them: of kind `user`, `anonymous`, or named as its trait. */
                                identity: {
                                    kind: string;
                                    value: string;
                                };
                                messageId: string;
                                at: string;
                            } | null;
                        }[];
                        /** @description UserIds of these profiles that no stored event has as its userId, so that nobody can tell. */
                        undecided: number;
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["role_too_low"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getSplits: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            id: string;
                            createdAt: string;
                            by: string;
                        }[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    postSplits: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description The two ids. */
                    ids: {
                        userId?: string | number;
                        anonymousId?: string | number;
                        /** @description An external id, by the trait that `identities.externalIds` names. */
                        external?: {
                            trait: string;
                            value: string | number;
                        };
                    }[];
                    /**
                     * @description Only says what would come of it.
                     * @default false
                     */
                    dryRun?: boolean;
                    /**
                     * @description Goes on although something is lost.
                     * @default false
                     */
                    confirm?: boolean;
                };
            };
        };
        responses: {
            /** @description OK: what would be done, asked for with `dryRun` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description What their profile becomes; empty where they are ids of two already. */
                        profiles: {
                            userId?: string;
                            formerUserIds: string[];
                            anonymousIds: string[];
                            externalIds: {
                                [key: string]: string[];
                            };
                            /** @description Stored events that count for it. */
                            events: number;
                        }[];
                        /** @description What destinations hear. */
                        told: {
                            userId?: string;
                            anonymousId?: string;
                            /** @description Of the audience or the computed trait. */
                            key: string;
                            value: unknown;
                            /** @description Those that hear it; absent for all of the audience or trait. */
                            destinations?: string[];
                        }[];
                        /** @description Some of what the profile was made of is not stored any more: what only that said is lost. */
                        poorer: boolean;
                    };
                };
            };
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        id: string;
                        createdAt: string;
                        by: string;
                        /** @description What their profile becomes; empty where they are ids of two already. */
                        profiles: {
                            userId?: string;
                            formerUserIds: string[];
                            anonymousIds: string[];
                            externalIds: {
                                [key: string]: string[];
                            };
                            /** @description Stored events that count for it. */
                            events: number;
                        }[];
                        /** @description What destinations hear. */
                        told: {
                            userId?: string;
                            anonymousId?: string;
                            /** @description Of the audience or the computed trait. */
                            key: string;
                            value: unknown;
                            /** @description Those that hear it; absent for all of the audience or trait. */
                            destinations?: string[];
                        }[];
                        /** @description Some of what the profile was made of is not stored any more: what only that said is lost. */
                        poorer: boolean;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.role_too_low"];
            404: components["responses"]["unknown_user"];
            409: components["responses"]["split_loses.too_many_splits"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    deleteSplitsId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        id: string;
                        createdAt: string;
                        by: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getAudiences: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            name: string;
                            /** @description The name of the trait that destinations get; never changes. */
                            key: string;
                            /** @description The text form. */
                            definition: string;
                            /** @description The same as JSON. */
                            json: {
                                [key: string]: unknown;
                            };
                            destinations: string[];
                            /** @description Of audiences. */
                            includeAnonymous?: boolean;
                            enabled: boolean;
                            /** @enum {string} */
                            state: "preparing" | "computing" | "live" | "disabled" | "failed";
                            /** @description Why it failed or waits, with what to do. */
                            reason?: string;
                            /** @description Users who are members, or who have a value. */
                            members: number;
                            /** @description Share of the work that is done; 1 when live. */
                            progress: number;
                            /** @description Earlier events could not count. */
                            eventsSince?: string;
                            /** @description How many of its events each destination is still owed, without replays. */
                            sync: {
                                destination: string;
                                pending: number;
                            }[];
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    postAudiences: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description Unique among audiences and computed traits. Other definitions refer to it. */
                    name: string;
                    /** @description What it is, in the language of audiences; or the same as JSON. */
                    definition: string | Record<string, never>;
                    /**
                     * @description Names of the destinations that are told.
                     * @default []
                     */
                    destinations?: string[];
                    /**
                     * @description Whether profiles without a userId may be members.
                     * @default false
                     */
                    includeAnonymous?: boolean;
                    /**
                     * @description While false it is not computed, and destinations hear nothing.
                     * @default true
                     */
                    enabled?: boolean;
                };
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @description The name of the trait that destinations get; never changes. */
                        key: string;
                        /** @description The text form. */
                        definition: string;
                        /** @description The same as JSON. */
                        json: {
                            [key: string]: unknown;
                        };
                        destinations: string[];
                        /** @description Of audiences. */
                        includeAnonymous?: boolean;
                        enabled: boolean;
                        /** @enum {string} */
                        state: "preparing" | "computing" | "live" | "disabled" | "failed";
                        /** @description Why it failed or waits, with what to do. */
                        reason?: string;
                        /** @description Users who are members, or who have a value. */
                        members: number;
                        /** @description Share of the work that is done; 1 when live. */
                        progress: number;
                        /** @description Earlier events could not count. */
                        eventsSince?: string;
                        /** @description How many of its events each destination is still owed, without replays. */
                        sync: {
                            destination: string;
                            pending: number;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            409: components["responses"]["name_taken"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getAudiencesName: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @description The name of the trait that destinations get; never changes. */
                        key: string;
                        /** @description The text form. */
                        definition: string;
                        /** @description The same as JSON. */
                        json: {
                            [key: string]: unknown;
                        };
                        destinations: string[];
                        /** @description Of audiences. */
                        includeAnonymous?: boolean;
                        enabled: boolean;
                        /** @enum {string} */
                        state: "preparing" | "computing" | "live" | "disabled" | "failed";
                        /** @description Why it failed or waits, with what to do. */
                        reason?: string;
                        /** @description Users who are members, or who have a value. */
                        members: number;
                        /** @description Share of the work that is done; 1 when live. */
                        progress: number;
                        /** @description Earlier events could not count. */
                        eventsSince?: string;
                        /** @description How many of its events each destination is still owed, without replays. */
                        sync: {
                            destination: string;
                            pending: number;
                        }[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    deleteAudiencesName: {
        parameters: {
            query?: {
                /** @description Only says what would become of its members. */
                dryRun?: "true" | "false" | "";
            };
            header?: {
                /** @description The ETag that the record was read with: when it has changed since, nothing is done (412). */
                "If-Match"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK: what would be done, asked for with `dryRun` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Users who are members, or who have a value. */
                        members: number;
                        /** @description Those that go on knowing them. */
                        destinations: string[];
                        /** @description What becomes of them, and what to do when that is not wanted. */
                        message: string;
                    };
                };
            };
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            409: components["responses"]["still_mentioned"];
            412: components["responses"]["changed_meanwhile"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    patchAudiencesName: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the record was read with: when it has changed since, nothing is done (412). */
                "If-Match"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    [key: string]: unknown;
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @description The name of the trait that destinations get; never changes. */
                        key: string;
                        /** @description The text form. */
                        definition: string;
                        /** @description The same as JSON. */
                        json: {
                            [key: string]: unknown;
                        };
                        destinations: string[];
                        /** @description Of audiences. */
                        includeAnonymous?: boolean;
                        enabled: boolean;
                        /** @enum {string} */
                        state: "preparing" | "computing" | "live" | "disabled" | "failed";
                        /** @description Why it failed or waits, with what to do. */
                        reason?: string;
                        /** @description Users who are members, or who have a value. */
                        members: number;
                        /** @description Share of the work that is done; 1 when live. */
                        progress: number;
                        /** @description Earlier events could not count. */
                        eventsSince?: string;
                        /** @description How many of its events each destination is still owed, without replays. */
                        sync: {
                            destination: string;
                            pending: number;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            412: components["responses"]["changed_meanwhile"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    postAudiencesPreview: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description Text, or the same as JSON. */
                    definition: string | {
                        [key: string]: unknown;
                    };
                    /** @description The one that it would replace. */
                    name?: string;
                    includeAnonymous?: boolean;
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description The text form of what was computed. */
                        definition: string;
                        /** @description The same as JSON. */
                        json: {
                            [key: string]: unknown;
                        };
                        members: number;
                        /** @description A few userIds. */
                        sample: string[];
                        /** @description Users who would enter, compared with the one it replaces. */
                        enters: number;
                        leaves: number;
                        /** @description Earlier events cannot count. */
                        eventsSince?: string;
                        /** @description When it was begun: an answer that took long is given again for a minute. */
                        computedAt: string;
                        /** @description Whether every event counts that was stored when it was asked for. */
                        complete: boolean;
                        /** @description How many do not count yet, because profiles are behind. */
                        eventsBehind?: number;
                        /** @description What was done all the same, such as a name of an endpoint that does not resolve yet. */
                        warnings: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["preview_running.too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["profiles_unavailable"];
        };
    };
    getAudiencesNameMembers: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @description Absent for a profile with anonymous ids alone. */
                            userId?: string;
                            /** @description Of such a profile: the one that destinations are told. */
                            anonymousId?: string;
                            since: string;
                            /** @description true for a member of an audience, or the value of the trait. */
                            value: unknown;
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["profiles_unavailable"];
        };
    };
    postAudiencesNameSync: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description One that it is connected to. */
                    destination: string;
                    /** @default false */
                    dryRun?: boolean;
                };
            };
        };
        responses: {
            /** @description OK: what would be done, asked for with `dryRun` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        destination: string;
                        /** @description Users who are members now, or have a value: each of them is told once more. */
                        members: number;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["profiles_unavailable.store_unwritable"];
        };
    };
    getTraits: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            name: string;
                            /** @description The name of the trait that destinations get; never changes. */
                            key: string;
                            /** @description The text form. */
                            definition: string;
                            /** @description The same as JSON. */
                            json: {
                                [key: string]: unknown;
                            };
                            destinations: string[];
                            /** @description Of audiences. */
                            includeAnonymous?: boolean;
                            enabled: boolean;
                            /** @enum {string} */
                            state: "preparing" | "computing" | "live" | "disabled" | "failed";
                            /** @description Why it failed or waits, with what to do. */
                            reason?: string;
                            /** @description Users who are members, or who have a value. */
                            members: number;
                            /** @description Share of the work that is done; 1 when live. */
                            progress: number;
                            /** @description Earlier events could not count. */
                            eventsSince?: string;
                            /** @description How many of its events each destination is still owed, without replays. */
                            sync: {
                                destination: string;
                                pending: number;
                            }[];
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    postTraits: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description Unique among audiences and computed traits. Definitions refer to it as computed(…). */
                    name: string;
                    /** @description What it is, in the language of audiences; or the same as JSON. */
                    definition: string | Record<string, never>;
                    /**
                     * @description Names of the destinations that are told.
                     * @default []
                     */
                    destinations?: string[];
                    /**
                     * @description While false it is not computed, and destinations hear nothing.
                     * @default true
                     */
                    enabled?: boolean;
                };
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @description The name of the trait that destinations get; never changes. */
                        key: string;
                        /** @description The text form. */
                        definition: string;
                        /** @description The same as JSON. */
                        json: {
                            [key: string]: unknown;
                        };
                        destinations: string[];
                        /** @description Of audiences. */
                        includeAnonymous?: boolean;
                        enabled: boolean;
                        /** @enum {string} */
                        state: "preparing" | "computing" | "live" | "disabled" | "failed";
                        /** @description Why it failed or waits, with what to do. */
                        reason?: string;
                        /** @description Users who are members, or who have a value. */
                        members: number;
                        /** @description Share of the work that is done; 1 when live. */
                        progress: number;
                        /** @description Earlier events could not count. */
                        eventsSince?: string;
                        /** @description How many of its events each destination is still owed, without replays. */
                        sync: {
                            destination: string;
                            pending: number;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            409: components["responses"]["name_taken"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getTraitsName: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @description The name of the trait that destinations get; never changes. */
                        key: string;
                        /** @description The text form. */
                        definition: string;
                        /** @description The same as JSON. */
                        json: {
                            [key: string]: unknown;
                        };
                        destinations: string[];
                        /** @description Of audiences. */
                        includeAnonymous?: boolean;
                        enabled: boolean;
                        /** @enum {string} */
                        state: "preparing" | "computing" | "live" | "disabled" | "failed";
                        /** @description Why it failed or waits, with what to do. */
                        reason?: string;
                        /** @description Users who are members, or who have a value. */
                        members: number;
                        /** @description Share of the work that is done; 1 when live. */
                        progress: number;
                        /** @description Earlier events could not count. */
                        eventsSince?: string;
                        /** @description How many of its events each destination is still owed, without replays. */
                        sync: {
                            destination: string;
                            pending: number;
                        }[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    deleteTraitsName: {
        parameters: {
            query?: {
                /** @description Only says what would become of its members. */
                dryRun?: "true" | "false" | "";
            };
            header?: {
                /** @description The ETag that the record was read with: when it has changed since, nothing is done (412). */
                "If-Match"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK: what would be done, asked for with `dryRun` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Users who are members, or who have a value. */
                        members: number;
                        /** @description Those that go on knowing them. */
                        destinations: string[];
                        /** @description What becomes of them, and what to do when that is not wanted. */
                        message: string;
                    };
                };
            };
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            409: components["responses"]["still_mentioned"];
            412: components["responses"]["changed_meanwhile"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    patchTraitsName: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the record was read with: when it has changed since, nothing is done (412). */
                "If-Match"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    [key: string]: unknown;
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @description The name of the trait that destinations get; never changes. */
                        key: string;
                        /** @description The text form. */
                        definition: string;
                        /** @description The same as JSON. */
                        json: {
                            [key: string]: unknown;
                        };
                        destinations: string[];
                        /** @description Of audiences. */
                        includeAnonymous?: boolean;
                        enabled: boolean;
                        /** @enum {string} */
                        state: "preparing" | "computing" | "live" | "disabled" | "failed";
                        /** @description Why it failed or waits, with what to do. */
                        reason?: string;
                        /** @description Users who are members, or who have a value. */
                        members: number;
                        /** @description Share of the work that is done; 1 when live. */
                        progress: number;
                        /** @description Earlier events could not count. */
                        eventsSince?: string;
                        /** @description How many of its events each destination is still owed, without replays. */
                        sync: {
                            destination: string;
                            pending: number;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            412: components["responses"]["changed_meanwhile"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    postTraitsPreview: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description Text, or the same as JSON. */
                    definition: string | {
                        [key: string]: unknown;
                    };
                    /** @description The one that it would replace. */
                    name?: string;
                    includeAnonymous?: boolean;
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description The text form of what was computed. */
                        definition: string;
                        /** @description The same as JSON. */
                        json: {
                            [key: string]: unknown;
                        };
                        members: number;
                        /** @description A few userIds. */
                        sample: string[];
                        /** @description Users who would enter, compared with the one it replaces. */
                        enters: number;
                        leaves: number;
                        /** @description Earlier events cannot count. */
                        eventsSince?: string;
                        /** @description When it was begun: an answer that took long is given again for a minute. */
                        computedAt: string;
                        /** @description Whether every event counts that was stored when it was asked for. */
                        complete: boolean;
                        /** @description How many do not count yet, because profiles are behind. */
                        eventsBehind?: number;
                        /** @description What was done all the same, such as a name of an endpoint that does not resolve yet. */
                        warnings: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["preview_running.too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["profiles_unavailable"];
        };
    };
    getTraitsNameMembers: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @description Absent for a profile with anonymous ids alone. */
                            userId?: string;
                            /** @description Of such a profile: the one that destinations are told. */
                            anonymousId?: string;
                            since: string;
                            /** @description true for a member of an audience, or the value of the trait. */
                            value: unknown;
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["bodies_not_shown.outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["profiles_unavailable"];
        };
    };
    postTraitsNameSync: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description One that it is connected to. */
                    destination: string;
                    /** @default false */
                    dryRun?: boolean;
                };
            };
        };
        responses: {
            /** @description OK: what would be done, asked for with `dryRun` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        destination: string;
                        /** @description Users who are members now, or have a value: each of them is told once more. */
                        members: number;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["profiles_unavailable.store_unwritable"];
        };
    };
    postRedeliveries: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    destination: string;
                    /** @description Of deliveries. */
                    ids?: string[];
                    /** @description Of events. */
                    messageIds?: string[];
                    /**
                     * @description Only deliveries that ended so. Default: with ids whatever their state, without ids `dead`.
                     * @enum {string}
                     */
                    state?: "delivered" | "dead" | "dropped";
                    /** @description Why they are dead or dropped. */
                    reason?: string;
                    /** @description Name of the source of their events. */
                    source?: string;
                    /** @enum {string} */
                    type?: "identify" | "track" | "page" | "screen" | "group" | "alias";
                    /**
                     * Format: date-time
                     * @description Of delivered ones: their events arrived at this time or later; of dead and dropped ones: given up then or later.
                     */
                    from?: string;
                    /**
                     * Format: date-time
                     * @description Of delivered ones: before this time; of dead and dropped ones likewise.
                     */
                    to?: string;
                    /**
                     * @description Delivered events a second at most. The others are owed as quickly as they are found.
                     * @default 1000
                     */
                    rate?: number;
                    /** @default false */
                    dryRun?: boolean;
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Absent for a dry run, and where nothing was to be done. */
                        id?: string;
                        /** @description Deliveries. */
                        count: number;
                        /** @description The count is an estimate, and never more than what is stored. */
                        estimated: boolean;
                        /**
                         * @description While it is running, `GET replays/{id}` says how far it is, and DELETE ends it.
                         * @enum {string}
                         */
                        state?: "running" | "done" | "cancelled" | "failed";
                        /** @description Of the ids: those that are owed anyway, and are left as they are. */
                        pending: number;
                        /** @description Of the ids: those that the visitor has not consented to, and that are left as they are. */
                        withheld: number;
                        /** @description Of the ids: those that no stored event has. */
                        missing: string[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getReplays: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            id: string;
                            destination: string;
                            source?: string;
                            types?: ("identify" | "track" | "page" | "screen" | "group" | "alias")[];
                            from: string;
                            to: string;
                            /** @description It is a redelivery: only deliveries that ended so. */
                            redelivers?: {
                                /** @enum {string} */
                                state: "delivered" | "dead" | "dropped";
                                reason?: string;
                            };
                            rate: number;
                            /** @description Events. */
                            count: number;
                            /** @description What is sent: more than events where each endpoint gets its own (`success: each`). Absent for replays that an earlier version made. */
                            deliveries?: number;
                            /** @description Of their JSON. */
                            bytes: number;
                            /** @description Every event of the range was looked at. */
                            exact: boolean;
                            /** @description The opposite: a part was looked at; the numbers are an estimate, and never more than what is stored. */
                            estimated: boolean;
                            /** @description At its rate, or the lower `rateLimit` of the destination. */
                            expectedSeconds: number;
                            /** @enum {string} */
                            state: "running" | "done" | "cancelled" | "failed";
                            reason?: string;
                            /** @description Events owed so far. */
                            replayed: number;
                            /** @description Deliveries of it that are still to be made. */
                            pending: number;
                            /** @enum {string} */
                            waiting?: "destination_paused" | "destination_disabled" | "destination_behind" | "storage_unavailable";
                            createdAt: string;
                            by: string;
                            endedAt?: string;
                            expectedEndAt?: string;
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    postReplays: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    destination: string;
                    /** @description Only events of this source, also one that the destination is not connected to. */
                    source?: string;
                    types?: ("identify" | "track" | "page" | "screen" | "group" | "alias")[];
                    /** Format: date-time */
                    from: string;
                    /** Format: date-time */
                    to: string;
                    /**
                     * @description Events a second at most.
                     * @default 1000
                     */
                    rate?: number;
                    /** @default false */
                    dryRun?: boolean;
                };
            };
        };
        responses: {
            /** @description OK: what would be done, asked for with `dryRun` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Events. */
                        count: number;
                        /** @description What is sent: more than events where each endpoint gets its own (`success: each`). Absent for replays that an earlier version made. */
                        deliveries?: number;
                        /** @description Of their JSON. */
                        bytes: number;
                        /** @description Every event of the range was looked at. */
                        exact: boolean;
                        /** @description The opposite: a part was looked at; the numbers are an estimate, and never more than what is stored. */
                        estimated: boolean;
                        /** @description At its rate, or the lower `rateLimit` of the destination. */
                        expectedSeconds: number;
                    };
                };
            };
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        id: string;
                        destination: string;
                        source?: string;
                        types?: ("identify" | "track" | "page" | "screen" | "group" | "alias")[];
                        from: string;
                        to: string;
                        /** @description It is a redelivery: only deliveries that ended so. */
                        redelivers?: {
                            /** @enum {string} */
                            state: "delivered" | "dead" | "dropped";
                            reason?: string;
                        };
                        rate: number;
                        /** @description Events. */
                        count: number;
                        /** @description What is sent: more than events where each endpoint gets its own (`success: each`). Absent for replays that an earlier version made. */
                        deliveries?: number;
                        /** @description Of their JSON. */
                        bytes: number;
                        /** @description Every event of the range was looked at. */
                        exact: boolean;
                        /** @description The opposite: a part was looked at; the numbers are an estimate, and never more than what is stored. */
                        estimated: boolean;
                        /** @description At its rate, or the lower `rateLimit` of the destination. */
                        expectedSeconds: number;
                        /** @enum {string} */
                        state: "running" | "done" | "cancelled" | "failed";
                        reason?: string;
                        /** @description Events owed so far. */
                        replayed: number;
                        /** @description Deliveries of it that are still to be made. */
                        pending: number;
                        /** @enum {string} */
                        waiting?: "destination_paused" | "destination_disabled" | "destination_behind" | "storage_unavailable";
                        createdAt: string;
                        by: string;
                        endedAt?: string;
                        expectedEndAt?: string;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            409: components["responses"]["destination_not_enabled"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getReplaysId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        id: string;
                        destination: string;
                        source?: string;
                        types?: ("identify" | "track" | "page" | "screen" | "group" | "alias")[];
                        from: string;
                        to: string;
                        /** @description It is a redelivery: only deliveries that ended so. */
                        redelivers?: {
                            /** @enum {string} */
                            state: "delivered" | "dead" | "dropped";
                            reason?: string;
                        };
                        rate: number;
                        /** @description Events. */
                        count: number;
                        /** @description What is sent: more than events where each endpoint gets its own (`success: each`). Absent for replays that an earlier version made. */
                        deliveries?: number;
                        /** @description Of their JSON. */
                        bytes: number;
                        /** @description Every event of the range was looked at. */
                        exact: boolean;
                        /** @description The opposite: a part was looked at; the numbers are an estimate, and never more than what is stored. */
                        estimated: boolean;
                        /** @description At its rate, or the lower `rateLimit` of the destination. */
                        expectedSeconds: number;
                        /** @enum {string} */
                        state: "running" | "done" | "cancelled" | "failed";
                        reason?: string;
                        /** @description Events owed so far. */
                        replayed: number;
                        /** @description Deliveries of it that are still to be made. */
                        pending: number;
                        /** @enum {string} */
                        waiting?: "destination_paused" | "destination_disabled" | "destination_behind" | "storage_unavailable";
                        createdAt: string;
                        by: string;
                        endedAt?: string;
                        expectedEndAt?: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    deleteReplaysId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getRegulations: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            id: string;
                            /** @enum {string} */
                            type: "SUPPRESS_WITH_DELETE" | "DELETE_ONLY" | "SUPPRESS_ONLY" | "UNSUPPRESS";
                            /** @enum {string} */
                            overallStatus: "INITIALIZED" | "RUNNING" | "FINISHED" | "PARTIAL_SUCCESS" | "FAILED";
                            createdAt: string;
                            /** @description When what was stored of the users was gone; absent until then, and where nothing is erased. */
                            erasedAt?: string;
                            /**
                             * @description What holds nothing of them since `erasedAt`: the `files` of the data folder, or the `tables` of the database, whose write-ahead log, archives, standbys and base backups keep copies until they are recycled or removed.
                             * @enum {string}
                             */
                            erasedFrom?: "files" | "tables";
                            finishedAt?: string;
                            by: string;
                            /**
                             * @description It tells no destination.
                             * @constant
                             */
                            silent?: true;
                            /** @description Number of ids. */
                            subjects: number;
                            erased: {
                                events: number;
                                deliveries: number;
                                deadLetters: number;
                            };
                            /** @description Ids that name nobody: nothing is stored of them, or, to end a suppression, they are not suppressed. Null until that is known. */
                            unknown: number | null;
                            /** @description Anonymous ids that belong to users: nothing of them is erased or suppressed. Absent until that is known, and where there are none. */
                            belongToUsers?: number;
                            /** @description How many further ids were found joined to them, by rule and source; null where nothing that is stored says it. Absent until they are known. */
                            joined?: {
                                rule: ("identify" | "alias" | "external") | null;
                                source: string | null;
                                ids: number;
                            }[];
                            /** @description UserIds of their profiles of which nothing was done, because calls of client sources alone have joined them. Absent until that is known, and where there are none. */
                            leftOut?: number;
                            /** @description Destinations that events of its users may have gone to and that hear nothing of it, because they pass calls on: delete the users in the service behind them too. Absent where there are none. */
                            untold?: string[];
                            /** @description Profiles erased; absent until they are counted. */
                            profiles?: number;
                            streamStatus: {
                                source: string;
                                destination: string;
                                /** @description Its URL, without what may be secret in it. */
                                endpoint: string;
                                /** @enum {string} */
                                status: "INITIALIZED" | "RUNNING" | "FINISHED" | "PARTIAL_SUCCESS" | "FAILED";
                                /** @description Delete notifications that it is to get. */
                                sent: number;
                                /** @description Those that it has accepted. */
                                confirmed: number;
                                /** @description When it accepted the last of them. */
                                confirmedAt?: string;
                                /** @description The last answer. */
                                answer?: {
                                    status?: number;
                                    /** @description Why the last request failed. */
                                    reason?: string;
                                    /** @description The beginning of a refusal, without the user ids. */
                                    body?: string;
                                };
                            }[];
                            /** @description Why it failed, with what to do. */
                            reason?: string;
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    postRegulations: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @enum {string} */
                    type: "SUPPRESS_WITH_DELETE" | "DELETE_ONLY" | "SUPPRESS_ONLY" | "UNSUPPRESS";
                    /** @description UserIds, taken as they are. One that is there twice counts once. */
                    subjectIds?: (string | number)[];
                    /** @description Anonymous ids of visitors without a userId: at least one id is needed, and there may be 5,000 of both kinds. Of one that belongs to a user nothing is done. */
                    anonymousIds?: (string | number)[];
                    /**
                     * @description Only checks the request, and says what it would find.
                     * @default false
                     */
                    dryRun?: boolean;
                    /**
                     * @description Takes along userIds that calls of client sources alone have joined to these, which are left out otherwise.
                     * @default false
                     */
                    confirm?: boolean;
                    /**
                     * @description Tells no destination: only what is stored here is erased.
                     * @default false
                     */
                    silent?: boolean;
                };
            };
        };
        responses: {
            /** @description OK: what would be done, asked for with `dryRun` */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @enum {string} */
                        type: "SUPPRESS_WITH_DELETE" | "DELETE_ONLY" | "SUPPRESS_ONLY" | "UNSUPPRESS";
                        subjects: number;
                        /** @description Those that name nobody. */
                        unknown: string[];
                        /** @description Anonymous ids that belong to users: name the users to erase them. */
                        belongToUsers: string[];
                        /** @description Whom it would take, as `regulations/{id}/subjects` shows it. */
                        found: {
                            userId?: string;
                            /** @description That of a visitor without a userId. */
                            anonymousId?: string;
                            /** @description Further userIds that are erased or suppressed with it; empty until they are known. */
                            formerUserIds: string[];
                            /** @description Anonymous ids that are erased or suppressed with it; empty until they are known. */
                            anonymousIds: string[];
                            /** @description What joined each of these ids. */
                            joins: {
                                /** @enum {string} */
                                kind: "user" | "anonymous";
                                value: string;
                                /** @description `identify`: an event has both ids; `alias`: one names it as previousId; `external`: both had an external id. Null where nothing that is stored says it. */
                                rule: ("identify" | "alias" | "external") | null;
                                /** @description The source of the event that joined it; null where the event is gone. */
                                source: string | null;
                                /** @description Of that event. */
                                messageId: string | null;
                                /** @description When it happened. */
                                at: string | null;
                            }[];
                            /** @description Further userIds of the same profile of which nothing is done, because calls of client sources alone have joined them; `confirm` takes them along. */
                            leftOut: {
                                /** @enum {string} */
                                kind: "user" | "anonymous";
                                value: string;
                                /** @description `identify`: an event has both ids; `alias`: one names it as previousId; `external`: both had an external id. Null where nothing that is stored says it. */
                                rule: ("identify" | "alias" | "external") | null;
                                /** @description The source of the event that joined it; null where the event is gone. */
                                source: string | null;
                                /** @description Of that event. */
                                messageId: string | null;
                                /** @description When it happened. */
                                at: string | null;
                            }[];
                            /**
                             * @description Why nothing is done of an anonymous id.
                             * @enum {string}
                             */
                            outcome?: "belongs_to_a_user";
                            /** @description Whether it names nobody; null until that is known. */
                            unknown: boolean | null;
                        }[];
                        /** @description Stored events that it would erase. */
                        events: number;
                        /** @description Profiles that it would erase. */
                        profiles: number;
                        /** @description Names of the destinations that it would tell. */
                        destinations: string[];
                    };
                };
            };
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        id: string;
                        /** @enum {string} */
                        type: "SUPPRESS_WITH_DELETE" | "DELETE_ONLY" | "SUPPRESS_ONLY" | "UNSUPPRESS";
                        /** @enum {string} */
                        overallStatus: "INITIALIZED" | "RUNNING" | "FINISHED" | "PARTIAL_SUCCESS" | "FAILED";
                        createdAt: string;
                        /** @description When what was stored of the users was gone; absent until then, and where nothing is erased. */
                        erasedAt?: string;
                        /**
                         * @description What holds nothing of them since `erasedAt`: the `files` of the data folder, or the `tables` of the database, whose write-ahead log, archives, standbys and base backups keep copies until they are recycled or removed.
                         * @enum {string}
                         */
                        erasedFrom?: "files" | "tables";
                        finishedAt?: string;
                        by: string;
                        /**
                         * @description It tells no destination.
                         * @constant
                         */
                        silent?: true;
                        /** @description Number of ids. */
                        subjects: number;
                        erased: {
                            events: number;
                            deliveries: number;
                            deadLetters: number;
                        };
                        /** @description Ids that name nobody: nothing is stored of them, or, to end a suppression, they are not suppressed. Null until that is known. */
                        unknown: number | null;
                        /** @description Anonymous ids that belong to users: nothing of them is erased or suppressed. Absent until that is known, and where there are none. */
                        belongToUsers?: number;
                        /** @description How many further ids were found joined to them, by rule and source; null where nothing that is stored says it. Absent until they are known. */
                        joined?: {
                            rule: ("identify" | "alias" | "external") | null;
                            source: string | null;
                            ids: number;
                        }[];
                        /** @description UserIds of their profiles of which nothing was done, because calls of client sources alone have joined them. Absent until that is known, and where there are none. */
                        leftOut?: number;
                        /** @description Destinations that events of its users may have gone to and that hear nothing of it, because they pass calls on: delete the users in the service behind them too. Absent where there are none. */
                        untold?: string[];
                        /** @description Profiles erased; absent until they are counted. */
                        profiles?: number;
                        streamStatus: {
                            source: string;
                            destination: string;
                            /** @description Its URL, without what may be secret in it. */
                            endpoint: string;
                            /** @enum {string} */
                            status: "INITIALIZED" | "RUNNING" | "FINISHED" | "PARTIAL_SUCCESS" | "FAILED";
                            /** @description Delete notifications that it is to get. */
                            sent: number;
                            /** @description Those that it has accepted. */
                            confirmed: number;
                            /** @description When it accepted the last of them. */
                            confirmedAt?: string;
                            /** @description The last answer. */
                            answer?: {
                                status?: number;
                                /** @description Why the last request failed. */
                                reason?: string;
                                /** @description The beginning of a refusal, without the user ids. */
                                body?: string;
                            };
                        }[];
                        /** @description Why it failed, with what to do. */
                        reason?: string;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.role_too_low"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getRegulationsId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        id: string;
                        /** @enum {string} */
                        type: "SUPPRESS_WITH_DELETE" | "DELETE_ONLY" | "SUPPRESS_ONLY" | "UNSUPPRESS";
                        /** @enum {string} */
                        overallStatus: "INITIALIZED" | "RUNNING" | "FINISHED" | "PARTIAL_SUCCESS" | "FAILED";
                        createdAt: string;
                        /** @description When what was stored of the users was gone; absent until then, and where nothing is erased. */
                        erasedAt?: string;
                        /**
                         * @description What holds nothing of them since `erasedAt`: the `files` of the data folder, or the `tables` of the database, whose write-ahead log, archives, standbys and base backups keep copies until they are recycled or removed.
                         * @enum {string}
                         */
                        erasedFrom?: "files" | "tables";
                        finishedAt?: string;
                        by: string;
                        /**
                         * @description It tells no destination.
                         * @constant
                         */
                        silent?: true;
                        /** @description Number of ids. */
                        subjects: number;
                        erased: {
                            events: number;
                            deliveries: number;
                            deadLetters: number;
                        };
                        /** @description Ids that name nobody: nothing is stored of them, or, to end a suppression, they are not suppressed. Null until that is known. */
                        unknown: number | null;
                        /** @description Anonymous ids that belong to users: nothing of them is erased or suppressed. Absent until that is known, and where there are none. */
                        belongToUsers?: number;
                        /** @description How many further ids were found joined to them, by rule and source; null where nothing that is stored says it. Absent until they are known. */
                        joined?: {
                            rule: ("identify" | "alias" | "external") | null;
                            source: string | null;
                            ids: number;
                        }[];
                        /** @description UserIds of their profiles of which nothing was done, because calls of client sources alone have joined them. Absent until that is known, and where there are none. */
                        leftOut?: number;
                        /** @description Destinations that events of its users may have gone to and that hear nothing of it, because they pass calls on: delete the users in the service behind them too. Absent where there are none. */
                        untold?: string[];
                        /** @description Profiles erased; absent until they are counted. */
                        profiles?: number;
                        streamStatus: {
                            source: string;
                            destination: string;
                            /** @description Its URL, without what may be secret in it. */
                            endpoint: string;
                            /** @enum {string} */
                            status: "INITIALIZED" | "RUNNING" | "FINISHED" | "PARTIAL_SUCCESS" | "FAILED";
                            /** @description Delete notifications that it is to get. */
                            sent: number;
                            /** @description Those that it has accepted. */
                            confirmed: number;
                            /** @description When it accepted the last of them. */
                            confirmedAt?: string;
                            /** @description The last answer. */
                            answer?: {
                                status?: number;
                                /** @description Why the last request failed. */
                                reason?: string;
                                /** @description The beginning of a refusal, without the user ids. */
                                body?: string;
                            };
                        }[];
                        /** @description Why it failed, with what to do. */
                        reason?: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getRegulationsIdSubjects: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            userId?: string;
                            /** @description That of a visitor without a userId. */
                            anonymousId?: string;
                            /** @description Further userIds that are erased or suppressed with it; empty until they are known. */
                            formerUserIds: string[];
                            /** @description Anonymous ids that are erased or suppressed with it; empty until they are known. */
                            anonymousIds: string[];
                            /** @description What joined each of these ids. */
                            joins: {
                                /** @enum {string} */
                                kind: "user" | "anonymous";
                                value: string;
                                /** @description `identify`: an event has both ids; `alias`: one names it as previousId; `external`: both had an external id. Null where nothing that is stored says it. */
                                rule: ("identify" | "alias" | "external") | null;
                                /** @description The source of the event that joined it; null where the event is gone. */
                                source: string | null;
                                /** @description Of that event. */
                                messageId: string | null;
                                /** @description When it happened. */
                                at: string | null;
                            }[];
                            /** @description Further userIds of the same profile of which nothing is done, because calls of client sources alone have joined them; `confirm` takes them along. */
                            leftOut: {
                                /** @enum {string} */
                                kind: "user" | "anonymous";
                                value: string;
                                /** @description `identify`: an event has both ids; `alias`: one names it as previousId; `external`: both had an external id. Null where nothing that is stored says it. */
                                rule: ("identify" | "alias" | "external") | null;
                                /** @description The source of the event that joined it; null where the event is gone. */
                                source: string | null;
                                /** @description Of that event. */
                                messageId: string | null;
                                /** @description When it happened. */
                                at: string | null;
                            }[];
                            /**
                             * @description Why nothing is done of an anonymous id.
                             * @enum {string}
                             */
                            outcome?: "belongs_to_a_user";
                            /** @description Whether it names nobody; null until that is known. */
                            unknown: boolean | null;
                        }[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getSuppressions: {
        parameters: {
            query?: {
                userId?: string;
                userIdJson?: string;
                anonymousId?: string;
                anonymousIdJson?: string;
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            /** @description Absent where only its hash is kept. */
                            userId?: string;
                            since: string;
                            /** @description The id of the regulation that did it. */
                            regulation: string;
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getSuppressionsUserId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                userId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description Absent where only its hash is kept. */
                        userId?: string;
                        since: string;
                        /** @description The id of the regulation that did it. */
                        regulation: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getAlerts: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            name: string;
                            /** @enum {string} */
                            type: "webhook" | "email";
                            enabled: boolean;
                            on: ("destination_failing" | "deliveries_dying" | "ledger_unbalanced" | "disk_filling" | "profiles_stopped")[];
                            destinations?: string[];
                            after: string;
                            remindEvery: string;
                            settings: {
                                url: string;
                                headers: {
                                    [key: string]: string | {
                                        /** @constant */
                                        set: true;
                                        hint?: string;
                                    };
                                };
                                signingSecrets?: {
                                    /** @constant */
                                    set: true;
                                    hint?: string;
                                }[];
                            } | {
                                server: string;
                                user?: string;
                                /** @description A secret: that there is one, and its last characters where it is long enough. */
                                password?: {
                                    /** @constant */
                                    set: true;
                                    hint?: string;
                                };
                                from: string;
                                to: string[];
                            };
                            /** @description What its receivers were told of and is not over. */
                            open: {
                                /** @enum {string} */
                                condition: "destination_failing" | "deliveries_dying" | "ledger_unbalanced" | "disk_filling" | "profiles_stopped";
                                destination?: string;
                                since: string;
                            }[];
                            /** @description A message was not taken yet and is sent again. */
                            isWaiting: boolean;
                            /** @description The last message since the start of the server. */
                            last?: {
                                at: string;
                                /** @enum {string} */
                                outcome: "taken" | "failed";
                                receiver: string;
                                status?: number;
                                answer: string;
                                latencyMs: number;
                            };
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    postAlerts: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description Unique among the alerts. */
                    name: string;
                    /**
                     * @description While false nothing is sent. What has changed is told when it is enabled again.
                     * @default true
                     */
                    enabled?: boolean;
                    /**
                     * @description What it is about. Default: everything.
                     * @default [
                     *       "destination_failing",
                     *       "deliveries_dying",
                     *       "ledger_unbalanced",
                     *       "disk_filling",
                     *       "profiles_stopped"
                     *     ]
                     */
                    on?: ("destination_failing" | "deliveries_dying" | "ledger_unbalanced" | "disk_filling" | "profiles_stopped")[];
                    /** @description Only these destinations. Default: all of them. */
                    destinations?: string[];
                    /**
                     * @description A change that lasts less is not told, so that a short hiccup wakes nobody.
                     * @default 1m
                     */
                    after?: string;
                    /**
                     * @description The pause between two messages about a trouble that goes on.
                     * @default 4h
                     */
                    remindEvery?: string;
                    /**
                     * @description Told by a signed webhook.
                     * @constant
                     */
                    type: "webhook";
                    /** @description A URL that gets messages as JSON, signed by the Standard Webhooks scheme. */
                    settings: {
                        /** @description Where the requests go: an absolute http or https URL without credentials or fragment. */
                        url: string;
                        /**
                         * @description Static headers of every request to this URL, at most 5. Reserved names are refused.
                         * @default {}
                         * @example {
                         *       "X-Team": "growth"
                         *     }
                         */
                        headers?: {
                            [key: string]: string;
                        };
                        /** @description Secrets of the Standard Webhooks scheme (webhook-timestamp, webhook-signature), beside sharedSecret. Two while one replaces the other: every request then carries a signature of each. */
                        signingSecrets?: string[];
                    };
                } | {
                    /** @description Unique among the alerts. */
                    name: string;
                    /**
                     * @description While false nothing is sent. What has changed is told when it is enabled again.
                     * @default true
                     */
                    enabled?: boolean;
                    /**
                     * @description What it is about. Default: everything.
                     * @default [
                     *       "destination_failing",
                     *       "deliveries_dying",
                     *       "ledger_unbalanced",
                     *       "disk_filling",
                     *       "profiles_stopped"
                     *     ]
                     */
                    on?: ("destination_failing" | "deliveries_dying" | "ledger_unbalanced" | "disk_filling" | "profiles_stopped")[];
                    /** @description Only these destinations. Default: all of them. */
                    destinations?: string[];
                    /**
                     * @description A change that lasts less is not told, so that a short hiccup wakes nobody.
                     * @default 1m
                     */
                    after?: string;
                    /**
                     * @description The pause between two messages about a trouble that goes on.
                     * @default 4h
                     */
                    remindEvery?: string;
                    /**
                     * @description Told by mail.
                     * @constant
                     */
                    type: "email";
                    /** @description People who get messages as mail, and the server that takes it. */
                    settings: {
                        /** @description smtps:// uses TLS from the start (port 465), smtp:// as soon as the server offers it (port 587). */
                        server: string;
                        /** @description Signs in to the server. */
                        user?: string;
                        /** @description Of the user. It is sent over TLS only. */
                        password?: string;
                        /** @description The sender. */
                        from: string;
                        /** @description The recipients. */
                        to: string[];
                    };
                };
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @enum {string} */
                        type: "webhook" | "email";
                        enabled: boolean;
                        on: ("destination_failing" | "deliveries_dying" | "ledger_unbalanced" | "disk_filling" | "profiles_stopped")[];
                        destinations?: string[];
                        after: string;
                        remindEvery: string;
                        settings: {
                            url: string;
                            headers: {
                                [key: string]: string | {
                                    /** @constant */
                                    set: true;
                                    hint?: string;
                                };
                            };
                            signingSecrets?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            }[];
                        } | {
                            server: string;
                            user?: string;
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            password?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            from: string;
                            to: string[];
                        };
                        /** @description What its receivers were told of and is not over. */
                        open: {
                            /** @enum {string} */
                            condition: "destination_failing" | "deliveries_dying" | "ledger_unbalanced" | "disk_filling" | "profiles_stopped";
                            destination?: string;
                            since: string;
                        }[];
                        /** @description A message was not taken yet and is sent again. */
                        isWaiting: boolean;
                        /** @description The last message since the start of the server. */
                        last?: {
                            at: string;
                            /** @enum {string} */
                            outcome: "taken" | "failed";
                            receiver: string;
                            status?: number;
                            answer: string;
                            latencyMs: number;
                        };
                        /** @description What was done all the same, such as a name of an endpoint that does not resolve yet. */
                        warnings?: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            409: components["responses"]["name_taken"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getAlertsName: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @enum {string} */
                        type: "webhook" | "email";
                        enabled: boolean;
                        on: ("destination_failing" | "deliveries_dying" | "ledger_unbalanced" | "disk_filling" | "profiles_stopped")[];
                        destinations?: string[];
                        after: string;
                        remindEvery: string;
                        settings: {
                            url: string;
                            headers: {
                                [key: string]: string | {
                                    /** @constant */
                                    set: true;
                                    hint?: string;
                                };
                            };
                            signingSecrets?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            }[];
                        } | {
                            server: string;
                            user?: string;
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            password?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            from: string;
                            to: string[];
                        };
                        /** @description What its receivers were told of and is not over. */
                        open: {
                            /** @enum {string} */
                            condition: "destination_failing" | "deliveries_dying" | "ledger_unbalanced" | "disk_filling" | "profiles_stopped";
                            destination?: string;
                            since: string;
                        }[];
                        /** @description A message was not taken yet and is sent again. */
                        isWaiting: boolean;
                        /** @description The last message since the start of the server. */
                        last?: {
                            at: string;
                            /** @enum {string} */
                            outcome: "taken" | "failed";
                            receiver: string;
                            status?: number;
                            answer: string;
                            latencyMs: number;
                        };
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    deleteAlertsName: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the record was read with: when it has changed since, nothing is done (412). */
                "If-Match"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            412: components["responses"]["changed_meanwhile"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    patchAlertsName: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag that the record was read with: when it has changed since, nothing is done (412). */
                "If-Match"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    [key: string]: unknown;
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @enum {string} */
                        type: "webhook" | "email";
                        enabled: boolean;
                        on: ("destination_failing" | "deliveries_dying" | "ledger_unbalanced" | "disk_filling" | "profiles_stopped")[];
                        destinations?: string[];
                        after: string;
                        remindEvery: string;
                        settings: {
                            url: string;
                            headers: {
                                [key: string]: string | {
                                    /** @constant */
                                    set: true;
                                    hint?: string;
                                };
                            };
                            signingSecrets?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            }[];
                        } | {
                            server: string;
                            user?: string;
                            /** @description A secret: that there is one, and its last characters where it is long enough. */
                            password?: {
                                /** @constant */
                                set: true;
                                hint?: string;
                            };
                            from: string;
                            to: string[];
                        };
                        /** @description What its receivers were told of and is not over. */
                        open: {
                            /** @enum {string} */
                            condition: "destination_failing" | "deliveries_dying" | "ledger_unbalanced" | "disk_filling" | "profiles_stopped";
                            destination?: string;
                            since: string;
                        }[];
                        /** @description A message was not taken yet and is sent again. */
                        isWaiting: boolean;
                        /** @description The last message since the start of the server. */
                        last?: {
                            at: string;
                            /** @enum {string} */
                            outcome: "taken" | "failed";
                            receiver: string;
                            status?: number;
                            answer: string;
                            latencyMs: number;
                        };
                        /** @description What was done all the same, such as a name of an endpoint that does not resolve yet. */
                        warnings?: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            412: components["responses"]["changed_meanwhile"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    postAlertsNameTest: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @enum {string} */
                        outcome: "taken" | "failed";
                        receiver: string;
                        status?: number;
                        answer: string;
                        latencyMs: number;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins.too_many_tests"];
            500: components["responses"]["internal_error"];
        };
    };
    getConfigFile: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        sources: string[];
                        destinations: string[];
                        audiences: string[];
                        traits: string[];
                        alerts: string[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    getConfig: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        sources: {
                            [key: string]: unknown;
                        }[];
                        destinations: {
                            [key: string]: unknown;
                        }[];
                        audiences: {
                            [key: string]: unknown;
                        }[];
                        traits: {
                            [key: string]: unknown;
                        }[];
                        alerts: {
                            [key: string]: unknown;
                        }[];
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    putConfig: {
        parameters: {
            query?: {
                /** @description Only says what would change. */
                dryRun?: "true" | "false" | "";
                /** @description Also removes the records that are not named. */
                prune?: "true" | "false" | "";
                /** @description Also where it disconnects a destination that something is still owed to. */
                confirm?: "true" | "false" | "";
            };
            header?: {
                /** @description The ETag that the record was read with: when it has changed since, nothing is done (412). */
                "If-Match"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    sources?: {
                        [key: string]: unknown;
                    }[];
                    destinations?: {
                        [key: string]: unknown;
                    }[];
                    audiences?: {
                        [key: string]: unknown;
                    }[];
                    traits?: {
                        [key: string]: unknown;
                    }[];
                    alerts?: {
                        [key: string]: unknown;
                    }[];
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    /** @description Of the record, for If-Match. */
                    ETag: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        applied: boolean;
                        changes: {
                            /** @enum {string} */
                            action: "created" | "changed" | "removed";
                            /** @enum {string} */
                            kind: "source" | "destination" | "audience" | "trait" | "alert" | "token";
                            name: string;
                            before?: {
                                [key: string]: unknown;
                            };
                            after?: {
                                [key: string]: unknown;
                            };
                        }[];
                        kept: string[];
                        disconnects: {
                            destination: string;
                            owed: number;
                        }[];
                        /** @description What was done all the same, such as a name of an endpoint that does not resolve yet. */
                        warnings: {
                            path: string;
                            message: string;
                        }[];
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.outside_token.role_too_low"];
            409: components["responses"]["confirmation_needed"];
            412: components["responses"]["changed_meanwhile"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getTokens: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            name: string;
                            /** @enum {string} */
                            role: "metrics" | "viewer" | "editor" | "admin";
                            hint: string;
                            createdAt: string;
                            /** @description When it ends; absent when it does not. */
                            expiresAt?: string;
                            /** @description With destinations: those that it is for. Both absent: all. */
                            sources?: string[];
                            destinations?: string[];
                            /**
                             * @description It does not show what events hold.
                             * @constant
                             */
                            bodies?: false;
                            /** @description When a request or a session of it was last answered by this node; absent when never. */
                            lastUsedAt?: string;
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["role_too_low"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    postTokens: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    name: string;
                    /** @enum {string} */
                    role: "metrics" | "viewer" | "editor" | "admin";
                    /**
                     * Format: date-time
                     * @description When it ends. Absent: it is good until it is revoked.
                     */
                    expiresAt?: string;
                    /** @description It is for these sources and the destinations beside them, and for nothing else. */
                    sources?: string[];
                    destinations?: string[];
                    /**
                     * @description false, of a viewer: it shows which events there are, and not what they hold.
                     * @default true
                     */
                    bodies?: boolean;
                };
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        name: string;
                        /** @enum {string} */
                        role: "metrics" | "viewer" | "editor" | "admin";
                        hint: string;
                        createdAt: string;
                        /** @description When it ends; absent when it does not. */
                        expiresAt?: string;
                        /** @description With destinations: those that it is for. Both absent: all. */
                        sources?: string[];
                        destinations?: string[];
                        /**
                         * @description It does not show what events hold.
                         * @constant
                         */
                        bodies?: false;
                        token: string;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.role_too_low"];
            409: components["responses"]["name_taken"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    deleteTokensName: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getAudit: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
                kind?: "source" | "destination" | "audience" | "trait" | "alert" | "token" | "replay" | "regulation" | "split";
                name?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            at: string;
                            by: string;
                            /** @enum {string} */
                            action: "created" | "changed" | "removed";
                            /** @enum {string} */
                            kind: "source" | "destination" | "audience" | "trait" | "alert" | "token" | "replay" | "regulation" | "split";
                            name: string;
                            before?: {
                                [key: string]: unknown;
                            };
                            after?: {
                                [key: string]: unknown;
                            };
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unreadable"];
        };
    };
    getBackups: {
        parameters: {
            query?: {
                /** @description Entries of a page at most. */
                limit?: number;
                /** @description `next` of the page before. */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        data: {
                            id: string;
                            folder: string;
                            /** @enum {string} */
                            state: "running" | "done" | "failed";
                            /** @description The moment it is a copy of: what was acknowledged before is in it. */
                            at: string;
                            /** @description Bytes copied so far. */
                            written: number;
                            /** @description Bytes of the whole. */
                            bytes: number;
                            events?: number;
                            /** @description What cannot be read, in the store as in the copy; absent when everything can. */
                            damage?: {
                                events: number;
                                deliveries: number;
                                others: string[];
                            };
                            seconds: number;
                            /** @description Why it failed. */
                            reason?: string;
                        }[];
                        next: string | null;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["role_too_low"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    postBackups: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key is not done again, and gets the same answer, for 24 hours or until a restart. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    /** @description Made if it does not exist, and empty otherwise; the one above it exists. */
                    folder: string;
                };
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        id: string;
                        folder: string;
                        /** @enum {string} */
                        state: "running" | "done" | "failed";
                        /** @description The moment it is a copy of: what was acknowledged before is in it. */
                        at: string;
                        /** @description Bytes copied so far. */
                        written: number;
                        /** @description Bytes of the whole. */
                        bytes: number;
                        events?: number;
                        /** @description What cannot be read, in the store as in the copy; absent when everything can. */
                        damage?: {
                            events: number;
                            deliveries: number;
                            others: string[];
                        };
                        seconds: number;
                        /** @description Why it failed. */
                        reason?: string;
                    };
                };
            };
            400: components["responses"]["body_not_json"];
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["cross_site_request.role_too_low"];
            409: components["responses"]["backup_running"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["idempotency_key_reused.invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
            503: components["responses"]["store_unwritable"];
        };
    };
    getBackupsId: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        id: string;
                        folder: string;
                        /** @enum {string} */
                        state: "running" | "done" | "failed";
                        /** @description The moment it is a copy of: what was acknowledged before is in it. */
                        at: string;
                        /** @description Bytes copied so far. */
                        written: number;
                        /** @description Bytes of the whole. */
                        bytes: number;
                        events?: number;
                        /** @description What cannot be read, in the store as in the copy; absent when everything can. */
                        damage?: {
                            events: number;
                            deliveries: number;
                            others: string[];
                        };
                        seconds: number;
                        /** @description Why it failed. */
                        reason?: string;
                    };
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["role_too_low"];
            404: components["responses"]["unknown_name"];
            413: components["responses"]["body_too_large"];
            421: components["responses"]["host_not_allowed"];
            422: components["responses"]["invalid_parameters"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
    getOpenapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            401: components["responses"]["session_over.token_expired.token_invalid.token_missing"];
            403: components["responses"]["outside_token"];
            421: components["responses"]["host_not_allowed"];
            429: components["responses"]["too_many_failed_sign_ins"];
            500: components["responses"]["internal_error"];
        };
    };
}
