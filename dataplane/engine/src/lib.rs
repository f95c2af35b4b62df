//! The RoCEv2 transport, sans-IO: queue pairs, requester, completer, responder, memory keys.
